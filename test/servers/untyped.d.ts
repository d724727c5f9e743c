/** The servers that ship no types: only what the tests call. */
declare module 'dynalite' {
  import type { Server } from 'node:http';
  export default function dynalite(options: { createTableMs?: number; deleteTableMs?: number; updateTableMs?: number }): Server;
}

declare module 'pouchdb-core' {
  interface PouchConstructor {
    plugin(plugin: unknown): PouchConstructor;
    defaults(options: { adapter: string; prefix?: string; revs_limit?: number }): PouchConstructor;
  }
  const PouchDB: PouchConstructor;
  export default PouchDB;
}

declare module 'pouchdb-adapter-memory' {
  const plugin: unknown;
  export default plugin;
}

declare module 'pouchdb-mapreduce' {
  const plugin: unknown;
  export default plugin;
}

declare module 'express-pouchdb' {
  import type { IncomingMessage, ServerResponse } from 'node:http';
  export default function expressPouchdb(
    database: unknown,
    options: { mode?: string; overrideMode?: { include?: string[]; exclude?: string[] } },
  ): (request: IncomingMessage, response: ServerResponse) => void;
}
