/** Writes JSON values as YAML. */

const plain = /^[A-Za-z_/][A-Za-z0-9 _/{}.-]*$/;
const reserved = /^(?:true|false|null|yes|no|on|off|~)$/i;

/**
 * The lines of a value, in block style with two spaces. Texts are quoted where YAML could read them as
 * another type.
 */
export function* yamlLines(value: unknown, indent = ''): Generator<string> {
  if (!isBlock(value)) return yield indent + leaf(value);
  if (Array.isArray(value)) for (const item of value) yield* entryLines('-', item, indent);
  else
    for (const [key, held] of Object.entries(value))
      if (held !== undefined) yield* entryLines(`${scalar(key)}:`, held, indent);
}

function* entryLines(head: string, value: unknown, indent: string): Generator<string> {
  if (!isBlock(value)) return yield `${indent}${head} ${leaf(value)}`;
  yield indent + head;
  yield* yamlLines(value, `${indent}  `);
}

function isBlock(value: unknown): value is object {
  return (
    typeof value === 'object' && value !== null && Object.values(value).some((held) => held !== undefined)
  );
}

function leaf(value: unknown): string {
  if (Array.isArray(value)) return '[]';
  return typeof value === 'object' && value !== null ? '{}' : scalar(value);
}

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  return plain.test(value) && !reserved.test(value) && !value.endsWith(' ') && !value.includes(' #')
    ? value
    : JSON.stringify(value);
}
