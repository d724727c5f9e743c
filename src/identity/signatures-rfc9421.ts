/** RFC 9421 HTTP message signatures, as far as Stoa uses them: Ed25519 over derived components and fields. */
import { hash } from 'node:crypto';

export interface SignedMessage {
  method: string;
  /** Scheme, authority, path and query as the client wrote them. */
  targetUri: string;
  headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface SignatureInput {
  label: string;
  components: readonly string[];
  /** The inner list with its parameters, as sent. It is the last line of the signed text. */
  parameters: string;
  created: number | undefined;
  /** NaN for an invalid time. */
  expires: number | undefined;
  nonce: string | undefined;
  keyId: string | undefined;
  algorithm: string | undefined;
}

const member =
  /\s*([a-z*][a-z0-9_.*-]*)=(\((?:[^()"]|"(?:[^"\\]|\\.)*")*\)(?:;\s*[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9.+/:-]+))?)*)\s*(?:,|$)/y;
const component = /^\s*"([a-z0-9@-]+)"(?=\s|$)/;
const parameter = /;\s*([a-z*][a-z0-9_.*-]*)(?:=(?:"((?:[^"\\]|\\.)*)"|([A-Za-z0-9.+/:-]+)))?/g;
const signatureMember = /\s*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/]*={0,2}):[^,]*(?:,|$)/y;

/** The signatures that `Signature-Input` describes; undefined when it does not parse. */
export function parseSignatureInput(header: string): SignatureInput[] | undefined {
  const inputs: SignatureInput[] = [];
  member.lastIndex = 0;
  while (member.lastIndex < header.length) {
    const found = member.exec(header);
    if (found === null) return undefined;
    const [, label, parameters] = found as unknown as [string, string, string];
    const end = closingParenthesis(parameters);
    const components = parseComponents(parameters.slice(1, end));
    // With two members under one label, another reader of the header could use a different member than this
    // verifier.
    if (components === undefined || inputs.some((input) => input.label === label)) return undefined;
    const values = new Map(
      Array.from(parameters.slice(end + 1).matchAll(parameter), ([, name, quoted, bare]) => [
        name,
        quoted?.replaceAll(/\\(.)/g, '$1') ?? bare,
      ]),
    );
    inputs.push({
      label,
      components,
      parameters,
      created: secondsOf(values.get('created')),
      expires: values.has('expires') ? (secondsOf(values.get('expires')) ?? NaN) : undefined,
      nonce: values.get('nonce'),
      keyId: values.get('keyid'),
      algorithm: values.get('alg'),
    });
  }
  return inputs;
}

function secondsOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

function closingParenthesis(parameters: string): number {
  let quoted = false;
  for (let at = 0; at < parameters.length; at += 1) {
    if (parameters[at] === '"') quoted = !quoted;
    if (parameters[at] === ')' && !quoted) return at;
  }
  return parameters.length;
}

/** Components with parameters (`;sf`, `;req`) change the signed text. They are refused. */
function parseComponents(list: string): string[] | undefined {
  const components: string[] = [];
  let rest = list;
  while (rest.trim() !== '') {
    const found = component.exec(rest);
    if (found === null || components.includes(found[1] as string)) return undefined;
    components.push(found[1] as string);
    rest = rest.slice(found[0].length);
  }
  return components;
}

/** The signatures by label; undefined when the header does not parse. */
export function parseSignatures(header: string): Map<string, Buffer> | undefined {
  const signatures = new Map<string, Buffer>();
  signatureMember.lastIndex = 0;
  while (signatureMember.lastIndex < header.length) {
    const found = signatureMember.exec(header);
    if (found === null || signatures.has(found[1] as string)) return undefined;
    signatures.set(found[1] as string, Buffer.from(found[2] as string, 'base64'));
  }
  return signatures;
}

/** The text that is signed, or undefined if a component is missing or unknown. */
export function signatureBase(
  message: SignedMessage,
  components: readonly string[],
  parameters: string,
): string | undefined {
  const lines: string[] = [];
  for (const name of components) {
    const value = name.startsWith('@') ? derivedComponent(message, name) : fieldValue(message, name);
    if (value === undefined) return undefined;
    lines.push(`"${name}": ${value}`);
  }
  lines.push(`"@signature-params": ${parameters}`);
  return lines.join('\n');
}

function derivedComponent({ method, targetUri }: SignedMessage, name: string): string | undefined {
  if (name === '@method') return method;
  if (name === '@target-uri') return targetUri;
  // The host is what the client wrote, and may be nothing that a URL can hold.
  if (!URL.canParse(targetUri)) return undefined;
  const { protocol, host, pathname, search } = new URL(targetUri);
  switch (name) {
    case '@scheme':
      return protocol.slice(0, -1);
    case '@authority':
      return host;
    case '@path':
      return pathname;
    case '@query':
      return search === '' ? '?' : search;
    case '@request-target':
      return `${pathname}${search}`;
    default:
      return undefined;
  }
}

function fieldValue({ headers }: SignedMessage, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.map((line) => line.trim()).join(', ') : value?.trim();
}

export function contentDigest(body: Buffer): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`;
}

const digestAlgorithms = new Map([
  ['sha-256', 'sha256'],
  ['sha-512', 'sha512'],
]);

/** Whether `Content-Digest` has a digest of a supported algorithm, and all of them match the body. */
export function digestMatches(header: string, body: Buffer): boolean {
  // Once an algorithm: a header of a hundred digests must not cost a hundred hashes of the body.
  const computed = new Map<string, string>();
  for (const [, name = '', digest] of header.matchAll(/([a-z0-9-]+)=:([A-Za-z0-9+/=]*):/g)) {
    const algorithm = digestAlgorithms.get(name);
    if (algorithm === undefined) continue;
    const expected = computed.get(algorithm) ?? hash(algorithm, body, 'base64');
    if (expected !== digest) return false;
    computed.set(algorithm, expected);
  }
  return computed.size > 0;
}
