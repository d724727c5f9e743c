import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { importOptional } from '../../src/core/optional-package.js';

test('a package beside the running program is found', async () => {
  const module = await importOptional<{ DynamoDBClient: unknown }>('@aws-sdk/client-dynamodb', 3);
  expect(module.DynamoDBClient).toBeTypeOf('function');
});

test('a missing package is named, with the command that installs a working version', async () => {
  await expect(importOptional('@nobody/has-this', 7)).rejects.toMatchObject({
    code: 'missing_package',
    message: 'The package @nobody/has-this is not installed.',
    fix: 'Run: npm install @nobody/has-this@7',
  });
});

test('where Stoa and the program both have a package, the preferred copy is loaded', async () => {
  type Api = typeof import('@opentelemetry/api');
  const ofProgram = createRequire(join(process.cwd(), 'package.json'))('@opentelemetry/api') as Api;
  const load = (preferred: 'stoa' | 'program') => importOptional<Api>('@opentelemetry/api', 1, preferred);
  expect((await load('program')).trace).toBe(ofProgram.trace);
  expect((await load('stoa')).trace).not.toBe(ofProgram.trace);
});
