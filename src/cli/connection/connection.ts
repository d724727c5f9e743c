/** Connects a command to the data: through the running server, or through the same routes in this process. */
import { readFile } from 'node:fs/promises';
import type { OnProgress } from '../../operations/model.js';
import { resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AnswerOf,
  type AnySettings,
  type CallRequest,
  type InputOf,
  type OperationName,
  queryText,
  requestOf,
} from '../../api/call.js';
import { operationNamed } from '../../api/index.js';
import type { Stoa as Client } from '../../client/index.js';
import type { Config } from '../../core/settings/config.js';
import { StoaError, fileReasonOf, messageOf } from '../../core/errors.js';
import { operatorTokenPath } from '../../identity/operator-token.js';
import type { Stoa } from '../../index.js';
import { readLock } from '../../homes/directory/kernel/directory/lock.js';
import { readManifest } from '../../homes/directory/kernel/directory/manifest.js';
import { answerOf, lastOf } from './answers.js';
import { type Answer, sendRequest } from './request.js';

export interface Connection {
  /** A text for people that says where the answers come from. */
  readonly where: string;
  /** Set if this process has opened the directory. */
  readonly stoa: Stoa | undefined;
  /** Calls an operation by its name. An error of the server is thrown as the same error. */
  call<Name extends OperationName>(
    name: Name,
    input: InputOf<Name> & object,
    settings?: AnySettings,
  ): Promise<AnswerOf<Name>>;
  /** As `call`, for commands that are derived from hints; only the server validates their fields. */
  ask(name: OperationName, input: object, settings?: AnySettings): Promise<unknown>;
  /** As `call`, for long work: the server reports its progress. `upload` is sent while it is read. */
  work<Name extends OperationName>(
    name: Name,
    input: InputOf<Name> & object,
    onProgress: OnProgress,
    upload?: Readable,
  ): Promise<AnswerOf<Name>>;
  /** The bytes of an answer while they arrive. */
  download<Name extends OperationName>(
    name: Name,
    input: InputOf<Name> & object,
  ): Promise<AsyncIterable<Uint8Array>>;
  /** The client for the same server and caller. It reconnects after a broken connection. */
  client(): Promise<Client>;
  close(): Promise<void>;
}

/**
 * What to do with a directory without a store. Most commands refuse it, because the name is probably
 * mistyped. Commands that import create a store; a dry run uses an empty store in memory.
 */
export type AbsentStore = 'refused' | 'created' | 'empty';

/** The caller, from flags or variables. */
export interface ConnectionOptions {
  absent?: AbsentStore | undefined;
  /** Called with the directory when a store was created. */
  onCreation?: ((dataDir: string) => void) | undefined;
  url?: string | undefined;
  token?: string | undefined;
  user?: string | undefined;
  agent?: string | undefined;
  loadConfig(): Config;
}

/** Another command holds the directory only for a moment; a server without an address is still starting. */
export const lockWaitMsMax = 10_000;

export async function connect(options: ConnectionOptions): Promise<Connection> {
  const identity = identityHeaders(options);
  if (options.url !== undefined) return remote(options.url, { ...identity, ...bearer(options.token) });
  const config = options.loadConfig();
  // Any number of processes may open it: this one is for a moment one of its servers.
  if (config.postgres !== null) return local(config, options, identity);
  const dataDir = resolve(config.data);
  const deadlineMs = Date.now() + lockWaitMsMax;
  for (;;) {
    const owner = config.engine === 'memory' ? undefined : await readLock(dataDir);
    if (owner?.url !== undefined)
      return remote(
        owner.url,
        { ...identity, ...bearer(options.token ?? (await operatorToken(dataDir))) },
        async () => (await readLock(dataDir))?.url,
      );
    try {
      if (owner === undefined) return await localStore(config, dataDir, options, identity);
    } catch (error) {
      if (!(error instanceof StoaError && error.code === 'locked')) throw error;
    }
    if (Date.now() > deadlineMs) {
      throw new StoaError(
        'locked',
        `${dataDir} is locked by process ${owner?.pid ?? 'unknown'}, which does not answer requests.`,
        { fix: 'Wait for that process to end, or stop it.' },
      );
    }
    await sleep(50);
  }
}

export function identityHeaders({
  user,
  agent,
}: Pick<ConnectionOptions, 'user'> & Partial<Pick<ConnectionOptions, 'agent'>>): Record<string, string> {
  return {
    ...(user !== undefined && { 'stoa-user': encodeURIComponent(user) }),
    ...(agent !== undefined && { 'stoa-agent': encodeURIComponent(agent) }),
  };
}

export function bearer(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

export async function operatorToken(dataDir: string): Promise<string> {
  const path = operatorTokenPath(dataDir);
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    throw new StoaError(
      'unauthenticated',
      `The operator's token in ${path} cannot be read: ${fileReasonOf(error)}.`,
      {
        cause: error,
        fix: 'Run as the user who started the server, or pass --token.',
      },
    );
  }
}

/** A server at a URL. `findAgain` finds the URL of the server that replaced it. */
function remote(
  url: string,
  identity: Readonly<Record<string, string>>,
  findAgain: () => Promise<string | undefined> = async () => undefined,
): Connection {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new StoaError('invalid_request', `"${url}" is not a valid server URL.`, {
      fix: 'Use a URL like http://127.0.0.1:7862.',
    });
  }
  const base = url.replace(/\/+$/, '');
  const send = senderTo(base, identity);
  const ask: Connection['ask'] = async (name, input, settings) => {
    const answer = await send(requestOf(operationNamed(name), input, settings));
    return answerOf(answer.status, await answer.text());
  };
  return {
    where: base,
    stoa: undefined,
    ask,
    call: typedCall(ask),
    work: async <Name extends OperationName>(
      name: Name,
      input: InputOf<Name> & object,
      onProgress: OnProgress,
      upload?: Readable,
    ) => {
      const request = requestOf(operationNamed(name), input);
      const headers = { ...request.headers, accept: 'text/event-stream, application/json' };
      const answer = await send({ ...request, headers }, upload);
      if (!answer.contentType.startsWith('text/event-stream'))
        return answerOf<AnswerOf<Name>>(answer.status, await answer.text());
      return lastOf<AnswerOf<Name>>(base, answer.body, onProgress);
    },
    download: async (name, input) => {
      const answer = await send(requestOf(operationNamed(name), input));
      return answer.status >= 400 ? answerOf(answer.status, await answer.text()) : answer.body;
    },
    client: () => clientOf(base, identity, findAgain),
    close: async () => undefined,
  };
}

function senderTo(
  base: string,
  identity: Readonly<Record<string, string>>,
): (request: CallRequest, upload?: Readable) => Promise<Answer> {
  return async ({ method, path, query, body, contentType, headers }, upload) => {
    try {
      return await sendRequest(base + path + queryText(query), {
        method,
        headers: {
          ...identity,
          ...(body !== undefined && { 'content-type': contentType }),
          ...(upload !== undefined && { 'content-type': 'application/x-ndjson' }),
          ...headers,
        },
        body: upload ?? (body === undefined ? undefined : JSON.stringify(body)),
      });
    } catch (error) {
      throw new StoaError('unreachable', `No server answers at ${base}: ${messageOf(error)}.`, {
        cause: error,
        fix: 'Start one with "stoa up", or check --url.',
      });
    }
  };
}

/** The client for a server, which asks where the server is after each broken connection. */
async function clientOf(
  base: string,
  identity: Readonly<Record<string, string>>,
  findAgain: () => Promise<string | undefined>,
): Promise<Client> {
  const { Stoa: StoaClient } = await import('../../client/index.js');
  let current = base;
  const send: typeof fetch = async (input, init) => {
    try {
      return await fetch(current + String(input).slice(base.length), {
        ...init,
        headers: { ...identity, ...Object.fromEntries(new Headers(init?.headers)) },
      });
    } catch (error) {
      // A restarted server may have another port; the client repeats the same call.
      current = (await findAgain()) ?? current;
      throw error;
    }
  };
  return new StoaClient({ url: base, fetch: send });
}

/** Opens the store in the directory. Without a store, most commands fail. */
async function localStore(
  config: Config,
  dataDir: string,
  options: ConnectionOptions,
  identity: Readonly<Record<string, string>>,
): Promise<Connection> {
  const isNew = config.engine !== 'memory' && (await readManifest(dataDir)) === undefined;
  if (isNew && options.absent === 'empty') return local({ ...config, engine: 'memory' }, options, identity);
  if (isNew && options.absent !== 'created') {
    throw new StoaError('not_found', `The directory ${dataDir} has no Stoa data.`, {
      fix: `Use another directory with --data, or create a store with: stoa up --data ${dataDir}`,
    });
  }
  const connection = await local(config, options, identity);
  if (isNew) options.onCreation?.(dataDir);
  return connection;
}

/**
 * Opens the directory in this process, through the routes of a server that listens only for streams, on a
 * free port.
 */
async function local(
  config: Config,
  { token }: ConnectionOptions,
  identity: Readonly<Record<string, string>>,
): Promise<Connection> {
  const [{ openStoa }, { createApp }, { stoaOptions }] = await Promise.all([
    import('../../index.js'),
    import('../../server/app.js'),
    import('./stoa-options.js'),
  ]);
  const stoa = await openStoa(stoaOptions(config));
  const app = createApp(stoa);
  const caller = { host: '127.0.0.1', ...identity, ...bearer(token ?? stoa.operatorToken) };
  const listening = async (): Promise<Connection> =>
    remote(await app.listen({ host: '127.0.0.1', port: 0 }), caller);
  const ask: Connection['ask'] = async (name, input, settings) => {
    const { method, path, query, body, contentType, headers } = requestOf(
      operationNamed(name),
      input,
      settings,
    );
    const answer = await app.inject({
      method,
      url: path + queryText(query),
      headers: { ...caller, ...(body !== undefined && { 'content-type': contentType }), ...headers },
      ...(body !== undefined && { payload: JSON.stringify(body) }),
    });
    return answerOf(answer.statusCode, answer.body);
  };
  return {
    where: resolve(config.data),
    stoa,
    ask,
    call: typedCall(ask),
    work: async (name, input, onProgress, upload) =>
      (await listening()).work(name, input, onProgress, upload),
    download: async (name, input) => (await listening()).download(name, input),
    client: async () => (await listening()).client(),
    close: async () => {
      await app.close();
      await stoa.close();
    },
  };
}

/** Each operation declares the type of its answer. */
function typedCall(ask: Connection['ask']): Connection['call'] {
  return async <Name extends OperationName>(
    name: Name,
    input: InputOf<Name> & object,
    settings?: AnySettings,
  ) => (await ask(name, input, settings)) as AnswerOf<Name>;
}
