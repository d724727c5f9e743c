/** The servers that ship no types: only what the tests call. */
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

declare module 'pouchdb-mapreduce/lib/index-browser.js' {
  const plugin: unknown;
  export default plugin;
}

declare module 'express-pouchdb' {
  import type { IncomingMessage, ServerResponse } from 'node:http';
  type Done<Result> = (error: Error | null, result: Result) => void;
  export type FindQuery = Record<string, unknown>;
  export interface FoundPage {
    docs: { _id: string }[];
    bookmark?: string;
    execution_stats?: { total_docs_examined: number };
  }
  export interface Index {
    fields: (string | Record<string, string>)[];
    partial_filter_selector?: unknown;
  }
  export interface Database {
    find: (query: FindQuery, done: Done<FoundPage>) => void;
    explain: (query: FindQuery, done: Done<{ index: { def: Index } }>) => void;
    createIndex: (request: { index: Index; name?: string; ddoc?: string }, done: Done<object>) => void;
    bulkDocs: (request: { docs: object[] }, options: object, done: Done<object[]>) => unknown;
    put: (document: object) => Promise<object>;
  }
  interface App {
    (request: IncomingMessage, response: ServerResponse): void;
    /** A wrapper prepares a database once, before its first request. */
    dbWrapper: {
      registerWrapper(wrapper: (name: string, database: Database, next: () => unknown) => unknown): void;
    };
  }
  export default function expressPouchdb(
    database: unknown,
    options: { mode?: string; overrideMode?: { include?: string[]; exclude?: string[] } },
  ): App;
}
