/** Checks answers against the server's own OpenAPI document. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Reply } from '../running.js';

export interface OpenApiDocument {
  paths: Record<
    string,
    Record<string, { responses: Record<string, { content?: Record<string, { schema: object }> }> }>
  >;
  components: object;
}

export class AnswerChecker {
  readonly #document: OpenApiDocument;
  // Each schema checks a few answers: making its code faster takes longer than running it as it is.
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false, code: { optimize: false } });

  constructor(document: OpenApiDocument) {
    this.#document = document;
    this.#ajv.addSchema({ $id: 'openapi', ...document });
  }

  /** What is wrong with an answer, or undefined. */
  complaint(method: string, path: string, reply: Reply): string | undefined {
    const responses = this.#document.paths[path]?.[method.toLowerCase()]?.responses;
    if (responses === undefined) return `${method} ${path} is not in the document`;
    const status = responses[reply.status] === undefined ? 'default' : String(reply.status);
    if (status === 'default' && reply.status < 400)
      return `${method} ${path} does not declare ${reply.status}`;
    const content = responses[status]?.content;
    if (content === undefined)
      return reply.text === '' ? undefined : `${method} ${path} ${reply.status} should have no body`;
    const type = reply.headers.get('content-type')?.split(';', 1)[0] ?? '';
    const declared = Object.keys(content).find((each) => each.split(';', 1)[0] === type);
    if (declared === undefined)
      return `${method} ${path} ${reply.status} is ${type}, not ${Object.keys(content).join(' or ')}`;
    // Lines of JSON are text to the document.
    if (!/[/+]json$/.test(type)) return undefined;
    const pointer = ['paths', path, method.toLowerCase(), 'responses', status, 'content', declared, 'schema']
      .map(escapePointer)
      .join('/');
    const validate = this.#ajv.getSchema(`openapi#/${pointer}`);
    if (validate === undefined) return `${method} ${path} ${reply.status} has no schema`;
    return validate(reply.json) === true
      ? undefined
      : `${method} ${path} ${reply.status}: ${this.#ajv.errorsText(validate.errors)} in ${reply.text.slice(0, 500)}`;
  }
}

function escapePointer(part: string): string {
  return encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
}
