/** Proofs of authorship: compact in storage, complete for readers. */
import { isUtf8 } from 'node:buffer';
import { aicqSignedText } from '../../identity/signatures.js';
import type { Proof } from '../model.js';

/** A signature that was checked, with the request that it covers. */
export interface CheckedSignature {
  scheme: Proof['scheme'];
  publicKey: string;
  signature: string;
  nonce: string;
  timestampMs: number;
  /** The signed text may be shown, because it contains no header with a secret. */
  signatureBase: string | null;
  rawBody: Buffer;
}

/**
 * Null if the signature covers something that readers must not see, because they could not verify it then.
 */
export function proofOf(checked: CheckedSignature, body: string): Proof | null {
  if (checked.scheme === 'rfc9421' && checked.signatureBase === null) return null;
  return {
    scheme: checked.scheme,
    publicKey: checked.publicKey,
    signature: checked.signature,
    nonce: checked.nonce,
    timestampMs: checked.timestampMs,
    ...(checked.signatureBase !== null && { signatureBase: checked.signatureBase }),
    request: foldRequest(checked.rawBody, body),
  };
}

/**
 * Most requests contain their message exactly as `JSON.stringify` writes it. Then only the text around it is
 * stored.
 */
function foldRequest(raw: Buffer, body: string): Proof['request'] {
  if (!isUtf8(raw)) return { base64: raw.toString('base64') };
  const text = raw.toString();
  const json = JSON.stringify(body);
  const at = text.indexOf(json);
  if (at < 0) return { base64: raw.toString('base64') };
  return { before: text.slice(0, at), after: text.slice(at + json.length) };
}

function unfoldRequest({ request }: Proof, body: string): Buffer {
  return 'base64' in request
    ? Buffer.from(request.base64, 'base64')
    : Buffer.from(`${request.before}${JSON.stringify(body)}${request.after}`);
}

function signedTextOf(proof: Proof, body: string): string {
  return (
    proof.signatureBase ?? aicqSignedText(unfoldRequest(proof, body), proof.nonce, String(proof.timestampMs))
  );
}

/**
 * A proof as readers get it: verify `sig` over `signed_text` with `public_key`, then check that the text
 * contains the hash of the request.
 */
export interface ShownProof {
  scheme: Proof['scheme'];
  public_key: string;
  signed_text: string;
  /** The request's body, when it is UTF-8; otherwise `request_base64` has its bytes. */
  request?: string;
  request_base64?: string;
}

export function shownProof(proof: Proof, body: string): ShownProof {
  const raw = unfoldRequest(proof, body);
  const request = raw.toString();
  const shown = Buffer.from(request).equals(raw) ? { request } : { request_base64: raw.toString('base64') };
  return {
    scheme: proof.scheme,
    public_key: proof.publicKey,
    signed_text: signedTextOf(proof, body),
    ...shown,
  };
}
