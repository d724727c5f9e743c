/** `stoa data …`: the data store from the shell. */
import type { JsonValue, KeySummary, NamespaceSummary } from '../../datastore/model.js';
import { defaultNamespace } from '../../datastore/model.js';
import { StoaError, messageOf } from '../../errors.js';
import { encodeSegment } from '../../path-segment.js';
import {
  type Action,
  type Options,
  durationOption,
  numberOption,
  present,
  textOption,
} from '../definition.js';
import { readText } from '../file-option.js';
import type { Column } from '../output.js';
import { type Page, pageQuery } from '../resource-options.js';
import { untilInterrupted } from './watch.js';

interface Document extends KeySummary {
  value: JsonValue;
}

const keyColumns: readonly Column<KeySummary>[] = [
  ['KEY', (item) => item.key],
  ['VERSION', (item) => item.version],
  ['BYTES', (item) => item.sizeBytes],
  ['UPDATED', (item) => item.updatedAt],
];

const documentColumns: readonly Column<Document>[] = [
  ['KEY', (item) => item.key],
  ['VERSION', (item) => item.version],
  ['UPDATED', (item) => item.updatedAt],
  ['VALUE', (item) => shortened(JSON.stringify(item.value))],
];

const namespaceColumns: readonly Column<NamespaceSummary>[] = [
  ['NAMESPACE', (item) => item.namespace],
  ['DOCUMENTS', (item) => item.count],
  ['BYTES', (item) => item.sizeBytes],
  ['UPDATED', (item) => item.updatedAt],
  ['AGENTS', (item) => item.agents.join(', ')],
];

export const get: Action = async ({ connect, output }, [key], options) => {
  const document = await (await connect()).call<Document>('GET', documentPath(options, key));
  const { value } = document;
  output.line(
    document,
    options['raw'] === true && typeof value === 'string' ? value : JSON.stringify(value, null, 2),
  );
};

export const set: Action = async ({ connect, output }, [key, argument], options) => {
  const value = await valueOf(argument, options);
  const body = present({
    value,
    metadata: metadataOf(options),
    ttl: durationOption(options, 'ttl'),
    expiresAt: textOption(options, 'expiresAt'),
  });
  const written = await (
    await connect('created')
  ).call<KeySummary>('PUT', documentPath(options, key), { body, headers: conditionsOf(options) });
  output.done(written, `Stored ${key} as version ${written.version}.`);
};

export const rm: Action = async ({ connect, output }, [key], options) => {
  const ifVersion = numberOption(options, 'ifVersion');
  await (
    await connect()
  ).call('DELETE', documentPath(options, key), {
    headers: ifVersion === undefined ? {} : { 'if-match': `"${ifVersion}"` },
  });
  output.done({ deleted: key }, `Deleted ${key}.`);
};

export const ls: Action = async ({ connect, output }, [prefix], options) => {
  const connection = await connect();
  const query = { ...pageQuery(options), prefix };
  if (options['values'] === true)
    output.list(
      await connection.call<Page<Document>>('GET', namespacePath(options), {
        query: { ...query, values: 1 },
      }),
      documentColumns,
      'No documents.',
    );
  else
    output.list(
      await connection.call<Page<KeySummary>>('GET', namespacePath(options), { query }),
      keyColumns,
      'No keys.',
    );
};

export const namespaces: Action = async ({ connect, output }, _args, options) => {
  output.list(
    await (await connect()).call<Page<NamespaceSummary>>('GET', '/v1/data', { query: pageQuery(options) }),
    namespaceColumns,
    'No namespaces.',
  );
};

export const clear: Action = async ({ connect, output }, _args, options) => {
  const namespace = namespaceOf(options);
  if (options['yes'] !== true) {
    throw new StoaError('invalid_request', `This deletes every document of the namespace "${namespace}".`, {
      fix: 'Say that it is meant with --yes.',
    });
  }
  const { deleted } = await (await connect()).call<{ deleted: number }>('DELETE', namespacePath(options));
  output.done({ deleted }, `Deleted ${deleted} documents.`);
};

export const increment: Action = async ({ connect, output }, [key, by = '1'], options) => {
  const amount = Number(by);
  if (by.trim() === '' || !Number.isFinite(amount))
    throw new StoaError('invalid_request', `"${by}" is not a number.`);
  const { value, version } = await (
    await connect('created')
  ).call<Document>('PATCH', documentPath(options, key), {
    body: { increment: amount },
    headers: conditionsOf(options),
  });
  output.line({ key, value, version }, String(value));
};

export const append: Action = async ({ connect, output }, [key, ...items], options) => {
  // Commander hands a variadic argument over as one list.
  const append = items.flat().map(parsed);
  const { value, version } = await (
    await connect('created')
  ).call<Document>('PATCH', documentPath(options, key), { body: { append }, headers: conditionsOf(options) });
  output.line({ key, value, version }, JSON.stringify(value));
};

export const patch: Action = async ({ connect, output }, [key, argument], options) => {
  const body = await valueOf(argument, options);
  const headers = { ...conditionsOf(options), 'content-type': 'application/merge-patch+json' };
  const { value, version } = await (
    await connect('created')
  ).call<Document>('PATCH', documentPath(options, key), { body, headers });
  output.line({ key, value, version }, JSON.stringify(value));
};

/** Only what happens; `stoa watch data` begins with what is there. */
export const watch: Action = async ({ connect, output }, [prefix], options) => {
  const namespace = namespaceOf(options);
  const { changes } = await (await connect()).client();
  output.say(`Watching ${namespace}; end with Ctrl-C.`);
  await untilInterrupted(async (signal) => {
    for await (const { items, position } of changes.follow({
      namespace,
      prefix,
      since: textOption(options, 'since'),
      signal,
    })) {
      for (const { at: atMs, kind, facts, version } of items) {
        const at = new Date(atMs).toISOString();
        const key = facts?.['key'] ?? null;
        output.line(
          { at, kind, namespace, key, version, position },
          [at, kind, key ?? '*', version ?? ''].join('  '),
        );
      }
    }
  });
};

function conditionsOf(options: Options): Record<string, string> {
  const ifVersion = numberOption(options, 'ifVersion');
  if (ifVersion === undefined) return {};
  return ifVersion === 0 ? { 'if-none-match': '*' } : { 'if-match': `"${ifVersion}"` };
}

function namespaceOf(options: Options): string {
  return textOption(options, 'namespace') ?? defaultNamespace;
}

function namespacePath(options: Options): string {
  return `/v1/data/${encodeSegment(namespaceOf(options))}`;
}

function documentPath(options: Options, key = ''): string {
  return `${namespacePath(options)}/${encodeSegment(key)}`;
}

async function valueOf(given: string | undefined, options: Options): Promise<unknown> {
  if (given !== undefined && options['file'] !== undefined)
    throw new StoaError('invalid_request', 'The value is given twice: after the key, and with --file.');
  const file = given === '-' ? given : textOption(options, 'file');
  const argument = file === undefined ? given : undefined;
  const text = argument ?? (await readText({ file }, 'file'));
  if (text === undefined)
    throw new StoaError('invalid_request', 'There is no value.', {
      fix: 'Give it after the key, or with --file; "-" reads standard input.',
    });
  if (options['text'] === true) return text;
  if (argument !== undefined) return parsed(argument);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new StoaError(
      'invalid_request',
      `${file === '-' ? 'Standard input' : file} does not hold JSON: ${messageOf(error)}.`,
      { cause: error, fix: 'Store it as text with --text.' },
    );
  }
}

/** JSON where it is JSON, otherwise the text itself: nobody types quotes twice. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function metadataOf(options: Options): unknown {
  const text = textOption(options, 'metadata');
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new StoaError('invalid_request', `--metadata is not JSON: ${messageOf(error)}.`, { cause: error });
  }
}

function shortened(text: string): string {
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
