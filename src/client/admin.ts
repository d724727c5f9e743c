/** Operations of the operator: users, tokens, backups, server status and transfers. */
import { requestOf } from '../api/call.js';
import { documents } from '../api/datastore/operations.js';
import { tokens, users } from '../api/registry/operations.js';
import { backups, blocks, server } from '../api/operations/operations.js';
import type { CallSettings, InputOf, AnswerOf } from '../api/call.js';
import { type Methods, methodsOf } from './methods.js';
import type { Transport } from './transport/transport.js';

/** Lines of JSON: a text, or a stream of bytes. */
export type Lines = string | ReadableStream<Uint8Array>;

export interface AdminClient extends Methods<'server'> {
  readonly users: Methods<'users'>;
  readonly tokens: Methods<'tokens'>;
  readonly backups: Methods<'backups'>;
  readonly blocks: Methods<'blocks'>;
  /** Documents of the data store with their times, versions and counters. */
  readonly documents: Methods<'documents'> & {
    importLines(
      lines: Lines,
      settings?: InputOf<'documents.importLines'> & CallSettings,
    ): Promise<AnswerOf<'documents.importLines'>>;
  };
  /**
   * Everything as lines of JSON, in pieces of any size.
   *
   * @example
   * for await (const bytes of stoa.admin.export({ domains: ['data'] })) file.write(bytes);
   */
  export(settings?: InputOf<'server.export'> & CallSettings): AsyncGenerator<Uint8Array>;
  /** Imports the lines of an export into this store. */
  import(
    lines: Lines,
    settings?: InputOf<'server.import'> & CallSettings,
  ): Promise<AnswerOf<'server.import'>>;
}

export function adminClient(transport: Transport): AdminClient {
  return {
    ...methodsOf(transport, 'server', server),
    users: methodsOf(transport, 'users', users),
    tokens: methodsOf(transport, 'tokens', tokens),
    backups: methodsOf(transport, 'backups', backups),
    blocks: methodsOf(transport, 'blocks', blocks),
    documents: {
      ...methodsOf(transport, 'documents', documents),
      importLines: (lines, { signal, ...fields } = {}) =>
        transport.call({ ...requestOf(documents.importLines, fields, { signal }), ...uploadOf(lines) }),
    },
    export: ({ signal, ...fields } = {}) => transport.bytes(requestOf(server.export, fields, { signal })),
    import: (lines, { signal, ...fields } = {}) =>
      transport.call({ ...requestOf(server.import, fields, { signal }), ...uploadOf(lines) }),
  };
}

function uploadOf(lines: Lines): { body: ReadableStream<Uint8Array>; contentType: string } {
  const body = typeof lines === 'string' ? new Blob([lines]).stream() : lines;
  return { body, contentType: 'application/x-ndjson' };
}
