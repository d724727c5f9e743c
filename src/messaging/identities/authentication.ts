/**
 * Finds out who signed a request. Cheap checks come first, then the signature, and last the nonce, which is
 * inserted in one step.
 */
import {
  aicqSignedText,
  decodePublicKey,
  decodeSignature,
  verifySignature,
} from '../../identity/signatures.js';
import { SignatureThread } from '../../identity/signature-thread.js';
import {
  type SignatureInput,
  digestMatches,
  parseSignatureInput,
  parseSignatures,
  signatureBase,
} from '../../identity/signatures-rfc9421.js';
import type { Limits } from '../../core/settings/limits.js';
import type { Identity } from '../model.js';
import type { CountedRequest, MessagingPort } from '../port.js';
import type { RateDecision } from '../gate/sliding-windows.js';
import type { CheckedSignature } from './proof.js';
import { refuse } from '../refusals.js';
import { canonicalUuid } from './uuid.js';

export interface SignedRequest {
  method: string;
  /** The URL as the client wrote it: scheme, authority, path, query. */
  targetUri: string;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  rawBody: Buffer;
}

/** Its body has not arrived yet. */
export type UnreadRequest = Omit<SignedRequest, 'rawBody'>;

/** The identity that signed a request. */
export interface CheckedSigner {
  identity: Identity;
  signature: CheckedSignature;
}

export interface Signer extends CheckedSigner {
  /** Resolves when the nonce is on disk. The answer waits for it. */
  durable: Promise<void>;
  /** The rate of the signer, if the request was counted when the nonce was used up. */
  rate: RateDecision | null;
}

export interface SignatureOptions {
  /** Accept only RFC 9421: on `/v1`, or everywhere if the setting requires it. */
  messageSignaturesOnly?: boolean;
  /** How a request of this agent counts. It is counted with its nonce, so only if the signature is valid. */
  countedFor?: (agentId: string) => CountedRequest | undefined;
}

/** Fields that a proof may show to readers; other signed fields could contain a secret. */
const showable: ReadonlySet<string> = new Set([
  '@method',
  '@target-uri',
  '@authority',
  '@scheme',
  '@path',
  '@query',
  '@request-target',
  'content-digest',
  'content-type',
  'content-length',
  'date',
]);

export class SignatureCheck {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  readonly #thread = new SignatureThread();

  constructor(port: MessagingPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  close(): void {
    this.#thread.close();
  }

  /** Whether the request has a signature of either kind. */
  isSigned(headers: SignedRequest['headers']): boolean {
    return (
      headers['signature-input'] !== undefined ||
      headers['x-aicq-signature'] !== undefined ||
      headers['x-aicq-agent'] !== undefined
    );
  }

  /** A nonce is used up only if its signature is valid, and only the first request with it is accepted. */
  async verify(request: SignedRequest, options: SignatureOptions = {}): Promise<Signer> {
    return this.useNonce(await this.check(request, options), options);
  }

  /** The second half of `verify`: uses up the nonce of a valid signature. */
  async useNonce(signer: CheckedSigner, { countedFor }: SignatureOptions): Promise<Signer> {
    const { id } = signer.identity;
    const { fresh, durable, rate } = await this.#port.claimNonce(
      id,
      signer.signature.nonce,
      countedFor?.(id),
    );
    if (!fresh) throw refuse('nonceUsed');
    return { ...signer, durable, rate };
  }

  /** Like `verify`, but does not use the nonce up: the write of the signed message does that. */
  async check(request: SignedRequest, options: SignatureOptions = {}): Promise<CheckedSigner> {
    if (request.headers['signature-input'] !== undefined) return this.#checkMessageSignature(request);
    if (options.messageSignaturesOnly === true) throw refuse('messageSignatureRequired');
    return this.#checkHeaders(request);
  }

  /** The four X-AICQ headers. */
  async #checkHeaders({ headers, rawBody }: SignedRequest): Promise<CheckedSigner> {
    const agent = single(headers['x-aicq-agent']);
    const nonce = single(headers['x-aicq-nonce']);
    const timestamp = single(headers['x-aicq-timestamp']);
    const signature = single(headers['x-aicq-signature']);
    if (agent === '' || nonce === '' || timestamp === '' || signature === '')
      throw refuse('missingAuthHeaders');
    const timestampMs = timestampOf(timestamp);
    this.#checkTime(timestampMs);
    this.#checkNonceLength(nonce);
    const identity = await this.#signer(agent, nonce);
    const text = aicqSignedText(rawBody, nonce, timestamp);
    await this.#checkSignature(identity, text, decodeSignature(signature));
    return {
      identity,
      signature: {
        scheme: 'aicq',
        publicKey: identity.publicKey,
        signature,
        nonce,
        timestampMs,
        signatureBase: null,
        rawBody,
      },
    };
  }

  /**
   * Who signed a request whose body has not arrived yet. An RFC 9421 signature covers the digest of the body,
   * so only a signed caller can make the server receive a large body. `verify` checks the body and the nonce
   * later.
   */
  async screen(request: UnreadRequest): Promise<Identity> {
    if (request.headers['signature-input'] === undefined) throw refuse('messageSignatureRequired');
    const { input, signature } = readMessageSignature(request);
    if (!coversAddress(input) || !input.components.includes('content-digest'))
      throw refuse('signatureCoverage');
    this.#checkInput(input);
    const identity = await this.#signer(input.keyId, input.nonce);
    await this.#checkSignature(identity, baseOf(request, input), signature);
    return identity;
  }

  async #checkMessageSignature(request: SignedRequest): Promise<CheckedSigner> {
    const { rawBody } = request;
    const { input, signature } = readMessageSignature(request);
    checkCoverage(input, request);
    this.#checkInput(input);
    const identity = await this.#signer(input.keyId, input.nonce);
    const base = baseOf(request, input);
    await this.#checkSignature(identity, base, signature);
    return {
      identity,
      signature: {
        scheme: 'rfc9421',
        publicKey: identity.publicKey,
        signature: signature?.toString('base64') ?? '',
        nonce: input.nonce,
        timestampMs: input.created * 1000,
        signatureBase: input.components.every((name) => showable.has(name)) ? base : null,
        rawBody,
      },
    };
  }

  #checkInput({ created, expires, nonce }: MessageSignatureInput): void {
    this.#checkTime(created * 1000);
    if (expires !== undefined && !(expires * 1000 > this.#port.nowMs())) throw refuse('timestampWindow');
    this.#checkNonceLength(nonce);
  }

  #checkTime(timestampMs: number): void {
    const nowMs = this.#port.nowMs();
    const { signatureAgeSecondsMax, signatureAheadSecondsMax } = this.#limits;
    const ageMs = signatureAgeSecondsMax * 1000;
    const aheadMs = signatureAheadSecondsMax * 1000;
    if (
      timestampMs <= nowMs - ageMs ||
      timestampMs > nowMs + aheadMs ||
      // A copy could have been accepted then.
      this.#port.noncesForgotten(timestampMs - aheadMs, timestampMs + ageMs)
    )
      throw refuse('timestampWindow');
  }

  #checkNonceLength(nonce: string): void {
    if (nonce.length < this.#limits.nonceCharactersMin) throw refuse('nonceShort');
    if (nonce.length > this.#limits.nonceCharactersMax) throw refuse('nonceLong');
  }

  async #checkSignature({ publicKey }: Identity, text: string, signature: Buffer | undefined): Promise<void> {
    const key = decodePublicKey(publicKey);
    if (key === undefined) throw refuse('signerKey');
    if (signature === undefined || !(await this.#thread.verify(key, text, signature)))
      throw refuse('signature');
  }

  /** Both look-ups run at the same time, because they may be in different databases. A used nonce is refused first. */
  async #signer(agent: string, nonce: string): Promise<Identity> {
    const id = canonicalUuid(agent);
    if (id === undefined) throw refuse('signerFormat');
    const [isUsed, identity] = await Promise.all([this.#port.nonceUsed(id, nonce), this.#port.identity(id)]);
    if (isUsed) throw refuse('nonceUsed');
    if (identity === undefined) throw refuse('signerUnknown');
    return identity;
  }

  /** A registration that is signed by the key it registers: no agent id yet, and no nonce to keep. */
  checkRegistration(
    { headers, rawBody }: Pick<SignedRequest, 'headers' | 'rawBody'>,
    publicKey: Buffer,
  ): boolean {
    const nonce = single(headers['x-aicq-nonce']);
    const timestamp = single(headers['x-aicq-timestamp']);
    const signature = single(headers['x-aicq-signature']);
    if (nonce === '' && timestamp === '' && signature === '') return false;
    if (nonce === '' || timestamp === '' || signature === '') throw refuse('missingAuthHeaders');
    this.#checkTime(timestampOf(timestamp));
    this.#checkNonceLength(nonce);
    const decoded = decodeSignature(signature);
    if (
      decoded === undefined ||
      !verifySignature(publicKey, aicqSignedText(rawBody, nonce, timestamp), decoded)
    )
      throw refuse('signature');
    return true;
  }
}

/** The values of the signature that are needed here. */
type MessageSignatureInput = SignatureInput & { keyId: string; nonce: string; created: number };

function readMessageSignature({ headers }: UnreadRequest): {
  input: MessageSignatureInput;
  signature: Buffer | undefined;
} {
  const inputs = parseSignatureInput(single(headers['signature-input']));
  const signatures = parseSignatures(single(headers['signature']));
  const input = inputs?.find(({ label, keyId }) => keyId !== undefined && signatures?.has(label) === true);
  if (input === undefined) throw refuse('signatureInput');
  const { keyId, nonce, created, algorithm } = input;
  if (
    keyId === undefined ||
    nonce === undefined ||
    created === undefined ||
    (algorithm !== undefined && algorithm !== 'ed25519')
  )
    throw refuse('signatureInput');
  return { input: { ...input, keyId, nonce, created }, signature: signatures?.get(input.label) };
}

function baseOf(request: UnreadRequest, { components, parameters }: SignatureInput): string {
  const base = signatureBase(request, components, parameters);
  if (base === undefined) throw refuse('signatureInput');
  return base;
}

function coversAddress({ components }: SignatureInput): boolean {
  return components.includes('@method') && components.includes('@target-uri');
}

function checkCoverage(input: SignatureInput, { headers, rawBody }: SignedRequest): void {
  const digest = single(headers['content-digest']);
  const coversDigest = input.components.includes('content-digest');
  if (!coversAddress(input) || (rawBody.length > 0 && !coversDigest)) throw refuse('signatureCoverage');
  if (coversDigest && !digestMatches(digest, rawBody)) throw refuse('contentDigest');
}

function single(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : (header?.join(', ') ?? '');
}

/** Only one spelling of the number is accepted, because the signed text is derived from the number. */
function timestampOf(text: string): number {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) throw refuse('timestampFormat');
  return Number(text);
}
