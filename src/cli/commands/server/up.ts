/** `stoa up`: runs the server in the foreground until a signal ends it. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Config } from '../../../core/settings/config.js';
import { StoaError, fileReasonOf, messageOf } from '../../../core/errors.js';
import { operatorTokenPath } from '../../../identity/operator-token.js';
import { type Stoa, type StoaOptions, openStoa, operatorCaller } from '../../../index.js';
import { readLock } from '../../../homes/directory/kernel/directory/lock.js';
import { signInPath } from '../../../server/routes/console/session.js';
import { createApp, stopApp } from '../../../server/app.js';
import { LogDestination } from '../../../server/telemetry/log-destination.js';
import { untilIdle } from '../../../server/idleness.js';
import { createLogger } from '../../../server/telemetry/log.js';
import { settleProcess } from '../../../server/process-settings.js';
import { loadTracing } from '../../../server/telemetry/tracing.js';
import { lockWaitMsMax } from '../../connection/connection.js';
import type { Action } from '../../definitions/definition.js';
import type { Output } from '../../output/output.js';
import { withoutPassword } from '../../../core/text/printable-url.js';
import { scheduleOf, stoaOptions } from '../../connection/stoa-options.js';

const never = new Promise<string>(() => undefined);

export const up: Action = async ({ output, settings }, _args, options) => {
  const { config, rows, warnings } = settings(options);
  const tls = tlsOf(config);
  for (const warning of warnings) output.warn(warning);
  if (options['dryRun'] === true) return plan(output, config);
  const log = new LogDestination();
  const logger = createLogger(config.logLevel, log);
  // Node would print warnings itself, and block until they are read.
  process.removeAllListeners('warning').on('warning', (warning) => logger.warn(warning.message));
  const tracing = config.tracing ? await loadTracing() : undefined;
  const stoa = await openWhenFree({
    ...stoaOptions(config, (error, about) => logger.error({ err: error }, about)),
    backups: scheduleOf(config),
  });
  let app: FastifyInstance | undefined;
  try {
    app = createApp(stoa, {
      host: config.host,
      allowedHosts: config.allowedHosts,
      corsOrigin: config.corsOrigin,
      trustedProxies: config.trustedProxies,
      logger,
      log,
      settings: rows,
      metricsNeedToken: config.metricsToken,
      ...(tls && { tls }),
      tracing,
    });
    const idle =
      options['stopWhenIdle'] === true ? untilIdle(app.server, stoa.limits.idleStopSeconds) : never;
    const { vectors } = stoa;
    if (vectors.embedder !== null) logger.info(vectors.embedder, `embedder: ${await vectors.method()}`);
    const url = await listen(app, config);
    await stoa.home.operations.announce(url);
    await tellAddress(output, { stoa, config, url, logger });
    settleProcess();
    const reason = await Promise.race([untilSignal(), idle]);
    log.write(`Stopping (${reason}) …\n`);
  } finally {
    if (app !== undefined) await stopApp(app, config.limits.stopSecondsMax);
    await stoa.close();
  }
};

/** Where the server is and how to use it: a line of JSON for programs. */
async function tellAddress(
  output: Output,
  { stoa, config, url, logger }: { stoa: Stoa; config: Config; url: string; logger: Logger },
): Promise<void> {
  const { place, tokenFile, token } = credentialsOf(stoa, config);
  if (output.json)
    output.line(
      {
        url,
        data: place,
        operator_token_file: tokenFile,
        ...(token && { operator_token: token }),
        pid: process.pid,
      },
      '',
    );
  else {
    // A log must not contain a link that signs its reader in as the operator.
    const consoleUrl = output.isRead ? await consoleLink(stoa, url, logger) : undefined;
    greet(output.say.bind(output), { url, place, tokenFile, token, consoleUrl });
  }
}

/** What a start would add, without starting. */
async function plan(output: Output, config: Config): Promise<void> {
  const { postgres, redis } = config;
  if (postgres === null || redis === null)
    throw new StoaError('invalid_config', '--dry-run was given without PostgreSQL and Redis.', {
      fix: 'Set --postgres and --redis to the URLs of the databases. A dry run shows what a start would add to them.',
    });
  const { planPostgresHome } = await import('../../../homes/postgres/open.js');
  const added = await planPostgresHome({
    postgres,
    redis,
    secretKeys: config.secretKeys ?? undefined,
    limits: config.limits,
    onError: (error, about) => output.warn(`${about}: ${messageOf(error)}`),
  });
  if (output.json) output.value({ postgres: withoutPassword(postgres), plan: added });
  else if (added.length === 0) output.say('The databases have everything. A start adds nothing.');
  else for (const sentence of added) output.line({}, sentence);
}

interface Credentials {
  /** Where the state is kept, for people. */
  place: string;
  /** The file with the operator's token, or null if no file holds it. */
  tokenFile: string | null;
  /** The token itself, where it is new and kept nowhere in clear text. */
  token: string | undefined;
}

function credentialsOf({ home }: Stoa, config: Config): Credentials {
  if (home.name === 'postgres')
    return {
      place: withoutPassword(config.postgres ?? ''),
      tokenFile: null,
      token: config.operatorToken === null ? (home.operatorToken ?? undefined) : undefined,
    };
  const isKept = home.operations.facts().engine !== 'memory';
  return isKept
    ? { place: resolve(config.data), tokenFile: operatorTokenPath(resolve(config.data)), token: undefined }
    : { place: 'memory only', tokenFile: null, token: home.operatorToken ?? undefined };
}

/** Another command holds the directory only for a moment; another server holds it for long. */
async function openWhenFree(options: StoaOptions): Promise<Stoa> {
  for (const deadlineMs = Date.now() + lockWaitMsMax; ; await sleep(50)) {
    try {
      return await openStoa(options);
    } catch (error) {
      const isHeld = error instanceof StoaError && error.code === 'locked';
      if (!isHeld || Date.now() > deadlineMs || (await readLock(options.data ?? ''))?.url !== undefined)
        throw error;
    }
  }
}

/** A one-time link for the person who starts the server. The server runs without it too. */
async function consoleLink(stoa: Stoa, url: string, logger: Logger): Promise<string | undefined> {
  try {
    const { token } = await stoa.identity.console.createCode(operatorCaller());
    return url + signInPath(token);
  } catch (error) {
    logger.warn({ err: error }, 'the one-time link of the console could not be created');
    return undefined;
  }
}

/** What a first-time user needs, in six lines. */
function greet(
  say: (line: string) => void,
  { url, place, tokenFile, token, consoleUrl }: Credentials & { url: string; consoleUrl: string | undefined },
): void {
  const bearer = tokenFile === null ? (token ?? '$STOA_OPERATOR_TOKEN') : `$(cat ${shellQuoted(tokenFile)})`;
  say(`Stoa is up at ${url}`);
  say(`  data            ${place}`);
  say(`  operator token  ${tokenFile ?? token ?? 'as it was given or shown at the first start'}`);
  say(`  console         ${consoleUrl ?? `${url}/console/ (make a sign-in link with: stoa console)`}`);
  say(`  reference       ${url}/reference`);
  say(`  try it          curl ${url}/v1/status -H "Authorization: Bearer ${bearer}"`);
}

function shellQuoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

async function listen(app: FastifyInstance, { host, port }: Config): Promise<string> {
  try {
    const url = await app.listen({ host, port });
    // A client cannot call a wildcard address.
    return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') {
      throw new StoaError('invalid_config', `Port ${port} on ${host} is in use.`, {
        cause: error,
        fix: 'Use another port with --port, or --port 0 for any free port.',
      });
    }
    if (code === 'EACCES') {
      throw new StoaError('invalid_config', `This user has no permission to open port ${port}.`, {
        cause: error,
        fix: 'Use a port of 1024 or above with --port.',
      });
    }
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new StoaError('invalid_config', `This machine has no address ${host}.`, {
        cause: error,
        fix: 'Use another address with --host, for example 127.0.0.1.',
      });
    }
    throw new StoaError(
      'invalid_config',
      `The server cannot listen on ${host}:${port}: ${messageOf(error)}.`,
      { cause: error },
    );
  }
}

function tlsOf({ tlsCert, tlsKey }: Config): { cert: Buffer; key: Buffer } | undefined {
  if (tlsCert === null || tlsKey === null) return undefined;
  const tls = { cert: readPem(tlsCert), key: readPem(tlsKey) };
  try {
    createSecureContext(tls);
  } catch (error) {
    throw new StoaError(
      'invalid_config',
      `${tlsCert} and ${tlsKey} are not a TLS certificate and its key: ${messageOf(error)}.`,
      { cause: error, fix: 'Use a certificate chain and its private key, both in PEM.' },
    );
  }
  return tls;
}

function readPem(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new StoaError('invalid_config', `The TLS file ${path} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the path and the permissions of the file.',
    });
  }
}

/** The first signal starts an orderly stop; a second one ends the process at once. */
function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130));
        resolve(signal);
      });
    }
  });
}
