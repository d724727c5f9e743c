/** `stoa data …`: the data store from the shell. */
import { mergePatchType } from '../../api/datastore/operations.js';
import type { JsonValue, KeySummary } from '../../datastore/model.js';
import { defaultNamespace } from '../../datastore/model.js';
import { StoaError, messageOf } from '../../core/errors.js';
import {
  type Action,
  type Context,
  type Options,
  durationOption,
  jsonOption,
  numberOption,
  pageQuery,
  textOption,
} from '../definitions/definition.js';
import { readText } from '../input/file-option.js';
import { type Column, counted } from '../output/output.js';
import { printable, printableJson } from '../output/printable.js';

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

export const get: Action = async ({ connect, output }, [key], options) => {
  const document = await (await connect()).call('data.get', placeOf(options, key));
  const { value } = document;
  output.stored(document, value, options['raw'] === true);
};

export const set: Action = async ({ connect, output }, [key, argument], options) => {
  const input = {
    ...placeOf(options, key),
    value: await valueOf(argument, options),
    metadata: jsonOption(options, 'metadata', '{"source": "crawler"}'),
    ttl: durationOption(options, 'ttl'),
    expiresAt: textOption(options, 'expiresAt'),
  };
  const written = await (await connect('created')).call('data.set', input, conditionOf(options));
  output.done(written, `Stored ${key} as version ${written.version}.`);
};

export const ls: Action = async ({ connect, output }, [prefix], options) => {
  const values = options['values'] === true;
  const input = { namespace: namespaceOf(options), prefix, ...pageQuery(options) };
  const page: { items: readonly object[]; next_cursor: string | null } = await (
    await connect()
  ).call('data.list', { ...input, ...(values && { values }) });
  // With `values` the items are documents, without it summaries.
  if (values) output.list({ ...page, items: page.items as Document[] }, documentColumns, 'No documents.');
  else output.list({ ...page, items: page.items as KeySummary[] }, keyColumns, 'No keys.');
};

/** Leaves out keys without a document. */
export const getMany: Action = async ({ connect, output }, [...keys], options) => {
  const { values } = await (
    await connect()
  ).call('data.batch', { namespace: namespaceOf(options), get: keys.flat() });
  if (output.json) output.value(values);
  else
    for (const [key, value] of Object.entries(values))
      output.line({}, `${printable(key)}  ${printableJson(value)}`);
};

/** All or nothing if the backend supports it; otherwise each key has its own result. */
export const setMany: Action = async ({ connect, output }, [argument], options) => {
  const set = await valueOf(argument, options);
  if (typeof set !== 'object' || set === null || Array.isArray(set))
    throw new StoaError('invalid_request', 'The argument is not a JSON object with a value for each key.', {
      fix: `Write it as '{"first": 1, "second": 2}'.`,
    });
  const answer = await (
    await connect('created')
  ).call('data.batch', {
    namespace: namespaceOf(options),
    set: { ...set },
    ttl: durationOption(options, 'ttl'),
  });
  const refused = Object.entries(answer.set).filter(([, result]) => 'error' in result);
  output.done(answer.set, `Stored ${counted(Object.keys(answer.set).length - refused.length, 'document')}.`);
  for (const [key, result] of refused)
    if ('error' in result) output.say(`${key} was not stored: ${result.error.detail}`);
  if (refused.length > 0) process.exitCode = 1;
};

export const clear: Action = async ({ connect, output }, _args, options) => {
  const namespace = namespaceOf(options);
  if (options['yes'] !== true) {
    throw new StoaError(
      'invalid_request',
      `The command would delete every document of the namespace "${namespace}".`,
      { fix: 'Confirm with --yes.' },
    );
  }
  const { deleted } = await (await connect()).call('data.clear', { namespace });
  output.done({ deleted }, `Deleted ${counted(deleted, 'document')}.`);
};

export const increment: Action = async (context, [key, by = '1'], options) => {
  const amount = Number(by);
  if (by.trim() === '' || !Number.isFinite(amount))
    throw new StoaError('invalid_request', `The amount "${by}" is not a number.`, {
      fix: 'Use a number, such as 5 or -0.5.',
    });
  await change(context, key, options, { increment: amount });
};

export const append: Action = async (context, [key, ...items], options) => {
  // Commander passes a variadic argument as one list.
  await change(context, key, options, { append: items.flat().map(parsed) });
};

export const patch: Action = async (context, [key, argument], options) => {
  await change(context, key, options, await valueOf(argument, options), mergePatchType);
};

async function change(
  { connect, output }: Context,
  key: string | undefined,
  options: Options,
  wanted: unknown,
  contentType?: string,
): Promise<void> {
  const connection = await connect('created');
  const input = { ...placeOf(options, key), change: wanted };
  const { value, version } = await connection.call('data.change', input, {
    ...conditionOf(options),
    contentType,
  });
  output.line({ key, value, version }, printableJson(value));
}

function conditionOf(options: Options): { ifVersion: number | undefined } {
  return { ifVersion: numberOption(options, 'ifVersion') };
}

function namespaceOf(options: Options): string {
  return textOption(options, 'namespace') ?? defaultNamespace;
}

function placeOf(options: Options, key = ''): { namespace: string; key: string } {
  return { namespace: namespaceOf(options), key };
}

async function valueOf(given: string | undefined, options: Options): Promise<unknown> {
  if (given !== undefined && options['file'] !== undefined)
    throw new StoaError(
      'invalid_request',
      'The command has two values: one after the key and one in --file.',
      { fix: 'Leave one of them out.' },
    );
  const file = given === '-' ? given : textOption(options, 'file');
  const argument = file === undefined ? given : undefined;
  const text = argument ?? (await readText({ file }, 'file'));
  if (text === undefined)
    throw new StoaError('invalid_request', 'The command has no value.', {
      fix: 'Add the value after the key, or use --file; "-" reads standard input.',
    });
  if (options['text'] === true) return text;
  if (argument !== undefined) return parsed(argument);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new StoaError(
      'invalid_request',
      `${file === '-' ? 'Standard input' : file} is not JSON: ${messageOf(error)}.`,
      { cause: error, fix: 'Store it as text with --text.' },
    );
  }
}

/** Parses JSON; other text is used unchanged, so that strings need no second quotes. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function shortened(text: string): string {
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
