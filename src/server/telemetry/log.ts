/** Structured logs, without secrets. */
import { type DestinationStream, type Logger, pino } from 'pino';
import type { LogLevel } from '../../core/settings/settings.js';

/** Paths in logged objects that can contain a secret. */
const secretPaths = ['authorization', 'cookie', 'token', 'secret', 'key', 'password'].flatMap((name) => [
  name,
  `*.${name}`,
  `*.*.${name}`,
]);
const secretHeaders = ['headers["x-aicq-room-key"]', '*.headers["x-aicq-room-key"]'];

export function createLogger(level: LogLevel, destination: DestinationStream): Logger {
  return pino(
    {
      level,
      base: { name: 'stoa' },
      redact: { paths: [...secretPaths, ...secretHeaders], censor: '[secret]' },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    destination,
  );
}

export function silentLogger(): Logger {
  return pino({ level: 'silent' });
}
