/** `stoa config`. */
import { expect, test } from 'vitest';
import { useProgram } from '../../program.js';

const { stoa } = useProgram();

test('the configuration is printed with the source of each value', async () => {
  const ended = await stoa(['config', '--host', '127.0.0.2', '--json'], {
    environment: { STOA_PORT: '9000', STOA_LIMIT_LEASE_SECONDS: '5' },
  });
  expect(ended.json()).toMatchObject({
    host: { value: '127.0.0.2', origin: '--host' },
    port: { value: 9000, origin: 'STOA_PORT' },
    engine: { value: null, origin: 'default' },
    'limits.leaseSeconds': { value: 5, origin: 'STOA_LIMIT_LEASE_SECONDS' },
  });
});
