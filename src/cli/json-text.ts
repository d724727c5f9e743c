/** Where things are in a JSON text that people edit, with comments and commas after the last member as editors allow them. */

export interface JsonObjectNode {
  kind: 'object';
  /** Of the opening brace, and past the closing one. */
  start: number;
  end: number;
  members: { name: string; value: JsonNode }[];
}

export type JsonNode = JsonObjectNode | { kind: 'other'; start: number; end: number };

/** Throws a SyntaxError for what is none. */
export function readJsonText(text: string): JsonNode {
  const reader = new JsonTextReader(text);
  const node = reader.value();
  reader.finish();
  return node;
}

class JsonTextReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): JsonNode {
    this.#skip();
    const start = this.#at;
    const first = this.#text[start];
    if (first === '{') return this.#object(start);
    if (first === '[') this.#list();
    else if (first === '"') this.#string();
    else this.#word();
    return { kind: 'other', start, end: this.#at };
  }

  finish(): void {
    this.#skip();
    if (this.#at < this.#text.length) throw this.#unexpected();
  }

  #object(start: number): JsonObjectNode {
    const members: JsonObjectNode['members'] = [];
    this.#at += 1;
    while (!this.#takes('}')) {
      const name = this.#string();
      if (!this.#takes(':')) throw this.#unexpected();
      members.push({ name, value: this.value() });
      if (!this.#takes(',') && !this.#sees('}')) throw this.#unexpected();
    }
    return { kind: 'object', start, end: this.#at, members };
  }

  #list(): void {
    this.#at += 1;
    while (!this.#takes(']')) {
      this.value();
      if (!this.#takes(',') && !this.#sees(']')) throw this.#unexpected();
    }
  }

  #string(): string {
    this.#skip();
    const [found] = this.#match(/"(?:[^"\\\n]|\\.)*"/y) ?? [];
    if (found === undefined) throw this.#unexpected();
    return JSON.parse(found) as string; // A JSON string parses to one.
  }

  #word(): void {
    const [found] = this.#match(/true|false|null|-?\d[\d.eE+-]*/y) ?? [];
    if (found === undefined) throw this.#unexpected();
    JSON.parse(found);
  }

  #takes(sign: string): boolean {
    const isThere = this.#sees(sign);
    if (isThere) this.#at += 1;
    return isThere;
  }

  #sees(sign: string): boolean {
    this.#skip();
    return this.#text[this.#at] === sign;
  }

  /** White space and comments; also the mark with which some editors begin a file. */
  #skip(): void {
    this.#match(/(?:[\s\uFEFF]|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }

  #unexpected(): SyntaxError {
    const line = this.#text.slice(0, this.#at).split('\n').length;
    return new SyntaxError(
      this.#at >= this.#text.length
        ? 'it ends too early'
        : `unexpected ${JSON.stringify(this.#text[this.#at])} in line ${line}`,
    );
  }
}
