import { expect, test } from 'vitest';
import { importOptional } from '../../src/core/optional-package.js';

test('a package beside the running program is found', async () => {
  const module = await importOptional<{ DynamoDBClient: unknown }>('@aws-sdk/client-dynamodb', 3);
  expect(module.DynamoDBClient).toBeTypeOf('function');
});

test('a missing package is named, with the line that installs a version which works', async () => {
  await expect(importOptional('@nobody/has-this', 7)).rejects.toMatchObject({
    code: 'missing_package',
    message: 'The package @nobody/has-this is not installed.',
    fix: 'Run: npm install @nobody/has-this@7',
  });
});
