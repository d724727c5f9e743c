/** Writes JSON values as YAML. */

const plain = /^[A-Za-z_/][A-Za-z0-9 _/{}.-]*$/;
const reserved = /^(?:true|false|null|yes|no|on|off|~)$/i;

/** Block style with two spaces; texts are quoted where YAML could read them as another type. */
export function toYaml(value: unknown): string {
  return `${lines(value).join('\n')}\n`;
}

function lines(value: unknown): string[] {
  if (Array.isArray(value)) return value.length === 0 ? ['[]'] : value.flatMap((item) => nested('-', item));
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).filter(([, held]) => held !== undefined);
    return entries.length === 0 ? ['{}'] : entries.flatMap(([key, held]) => nested(`${scalar(key)}:`, held));
  }
  return [scalar(value)];
}

function nested(head: string, value: unknown): string[] {
  const inner = lines(value);
  const isBlock = typeof value === 'object' && value !== null && Object.keys(value).length > 0;
  if (!isBlock) return [`${head} ${inner[0] ?? ''}`];
  return [head, ...inner.map((line) => `  ${line}`)];
}

function scalar(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  return plain.test(value) && !reserved.test(value) && !value.endsWith(' ') && !value.includes(' #')
    ? value
    : JSON.stringify(value);
}
