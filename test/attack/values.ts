/** Values for a schema of the OpenAPI document: some that fit it, and some that no schema expects. */
import type { Random } from './random.js';

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  required?: string[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
  default?: unknown;
}

const oddText = [
  '',
  ' ',
  '\u0000',
  '\u0007bell',
  '\u001b[31m',
  '\ud800',
  '\u202eright to left',
  'e\u0301',
  '日本語',
  '😀'.repeat(30),
  '__proto__',
  'constructor',
  'toString',
  '..',
  '../../etc/passwd',
  '.',
  '~',
  '%',
  '%00',
  '%ff',
  '%2e%2e%2f',
  'null',
  'NaN',
  '-0',
  '1e309',
  '9'.repeat(400),
  '0x10',
  '١٢٣',
  "' OR 1=1 --",
  '<script>',
  '{}',
  '[]',
  '*',
  '\r\nX-Injected: 1',
  'x'.repeat(3_000),
  'x'.repeat(300_000),
];
const oddNumbers = [
  0,
  -0,
  -1,
  0.5,
  1e-320,
  5e-324,
  2 ** 31,
  2 ** 32,
  2 ** 48,
  2 ** 53,
  2 ** 53 + 2,
  2 ** 63,
  1e21,
  1e308,
  -(2 ** 63),
  999_999_999_999_999,
];

/** What answers have brought: ids, cursors and names of things that are there. */
export class Known {
  readonly #texts: string[] = ['global', 'default', 'alice', 'notes', 'k1'];

  learn(text: string): void {
    for (const [, found] of text.matchAll(
      /"(?:\w*id|next_cursor|position|name|key|namespace)":"([^"\\]{1,300})"/g,
    ))
      if (found !== undefined) this.#add(found);
  }

  #add(text: string): void {
    if (this.#texts.length < 400) this.#texts.push(text);
    else this.#texts[Math.floor(Math.random() * 400)] = text;
  }

  text(random: Random): string {
    return random.of(this.#texts);
  }
}

export class Values {
  readonly #random: Random;
  readonly #known: Known;
  readonly #schemas: Readonly<Record<string, Schema>>;

  constructor(random: Random, known: Known, schemas: Readonly<Record<string, Schema>>) {
    this.#random = random;
    this.#known = known;
    this.#schemas = schemas;
  }

  /** A value of the schema in which each part is odd with the given probability. */
  of(schema: Schema | undefined, odd: number, depth = 0): unknown {
    const random = this.#random;
    if (random.is(odd)) return this.odd();
    if (schema === undefined || depth > 8) return this.#plain();
    if (schema.$ref !== undefined)
      return this.of(this.#schemas[schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)], odd, depth + 1);
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined) return random.of(schema.enum);
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices !== undefined) return this.of(random.of(choices), odd, depth + 1);
    if (schema.allOf !== undefined) return this.of(schema.allOf[0], odd, depth + 1);
    const type = Array.isArray(schema.type) ? random.of(schema.type) : schema.type;
    switch (type) {
      case 'string':
        return this.text();
      case 'integer':
      case 'number':
        return Math.max(schema.minimum ?? 0, Math.min(schema.maximum ?? 100, random.below(100)));
      case 'boolean':
        return random.is(0.5);
      case 'null':
        return null;
      case 'array':
        return Array.from({ length: random.below(4) }, () => this.of(schema.items, odd, depth + 1));
      case 'object':
        return this.#object(schema, odd, depth);
      default:
        return this.#plain();
    }
  }

  #object(schema: Schema, odd: number, depth: number): Record<string, unknown> {
    const random = this.#random;
    const members = Object.entries(schema.properties ?? {})
      .filter(([name]) => schema.required?.includes(name) === true || random.is(0.4))
      .map(([name, member]): [string, unknown] => [name, this.of(member, odd, depth + 1)]);
    if (typeof schema.additionalProperties === 'object')
      for (let more = random.below(3); more > 0; more -= 1)
        members.push([this.text(), this.of(schema.additionalProperties, odd, depth + 1)]);
    if (random.is(odd)) members.push([random.of(oddText.slice(0, 30)), this.odd()]);
    if (random.is(odd) && members.length > 0) members.splice(random.below(members.length), 1);
    return Object.fromEntries(members);
  }

  text(): string {
    const random = this.#random;
    return random.is(0.6)
      ? this.#known.text(random)
      : random.of(['a', 'k2', 'worker', 'hello world', '2024-01-01T00:00:00Z', 'AAAA']);
  }

  odd(): unknown {
    const random = this.#random;
    switch (random.below(7)) {
      case 0:
      case 1:
        return random.of(oddText);
      case 2:
        return random.of(oddNumbers);
      case 3:
        return random.of([null, true, false, [], {}, [[]], { '': '' }]);
      case 4: {
        let nested: unknown = 1;
        for (let levels = random.of([3, 60, 150, 250]); levels > 0; levels -= 1)
          nested = random.is(0.5) ? [nested] : { a: nested };
        return nested;
      }
      case 5:
        return Array.from({ length: random.of([10, 1_000, 20_000]) }, () => random.below(10));
      default:
        return this.text();
    }
  }

  #plain(): unknown {
    return this.#random.of<unknown>([1, 'text', true, null, [1, 2], { a: 1 }]);
  }

  /** As a part of a path or a query. */
  word(schema: Schema | undefined, odd: number): string {
    const value = this.of(schema, odd);
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    const random = this.#random;
    if (random.is(odd)) return random.of(['%', '%ff', '%c0%af', '%00', '%2F', '..', '', '%ED%A0%80', '%zz']);
    return encodeURIComponent(text.toWellFormed()).slice(0, 9_000);
  }
}
