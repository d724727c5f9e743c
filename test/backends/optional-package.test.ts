import { expect, test } from 'vitest';
import { importOptional } from '../../src/backends/optional-package.js';

test('a package beside the running program is found', async () => {
  const module = await importOptional<{ DynamoDBClient: unknown }>('@aws-sdk/client-dynamodb');
  expect(module.DynamoDBClient).toBeTypeOf('function');
});

test('a missing package is named, with the line that installs it', async () => {
  await expect(importOptional('@nobody/has-this')).rejects.toMatchObject({
    code: 'missing_package',
    message: 'The package @nobody/has-this is not installed.',
    fix: 'Run: npm install @nobody/has-this',
  });
});
