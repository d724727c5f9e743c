/** Identities: registered by key, changed and rotated only by who holds it, linked by the user they act for. */
import { StoaError } from '../errors.js';
import type { Caller, Scopes } from '../identity/caller.js';
import { checkScopeNamespaces } from '../identity/scope-namespaces.js';
import {
  decodePublicKey,
  decodeSignature,
  linkText,
  rotationText,
  verifySignature,
} from '../identity/signatures.js';
import type { Limits } from '../limits.js';
import type { SignatureCheck, SignedRequest } from './authentication.js';
import type { Identity, IdentityKey } from './model.js';
import { agentNameOf, isEmail } from './names.js';
import type { MessagingPort } from './port.js';
import { type CheckedSignature, proofOf } from './proof.js';
import { refuse } from './refusals.js';
import { canonicalUuid } from './uuid.js';

export interface Registration {
  public_key: string;
  name: string;
  email: string;
}

export interface ProfileChange {
  name?: string | null;
  email?: string | null;
}

export interface LinkRequest {
  /** The owner of the agent. */
  user: string;
  agentId: string;
  agentName: string;
  write: boolean;
  namespaces: string[] | null;
}

/** An identity agrees to a link: its signature over `linkText`. */
export interface LinkConsent {
  signed_at: number;
  signature: string;
}

export class Identities {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  readonly #signatures: SignatureCheck;

  constructor(port: MessagingPort, limits: Limits, signatures: SignatureCheck) {
    this.#port = port;
    this.#limits = limits;
    this.#signatures = signatures;
  }

  /** A key that is known answers its identity and changes nothing, except that a signature proves what was only claimed. */
  async register(
    input: Registration,
    request: Pick<SignedRequest, 'headers' | 'rawBody'>,
  ): Promise<{ id: string; created: boolean }> {
    if (input.public_key === '') throw refuse('publicKeyMissing');
    const key = decodePublicKey(input.public_key);
    if (key === undefined) throw refuse('publicKey');
    const proven = this.#signatures.checkRegistration(request, key);
    const email = this.#email(input.email);
    const { identity, created } = await this.#port.register({
      publicKey: input.public_key,
      name: agentNameOf(input.name),
      email,
      proven,
    });
    if (!created && proven && !identity.proven) await this.#port.updateProfile(identity.id, { proven: true });
    return { id: identity.id, created };
  }

  async get(id: string): Promise<Identity> {
    const canonical = canonicalUuid(id);
    if (canonical === undefined) throw refuse('agentId');
    const identity = await this.#port.identity(canonical);
    if (identity === undefined) throw refuse('agentUnknown');
    return identity;
  }

  async keys(id: string): Promise<IdentityKey[]> {
    const identity = await this.get(id);
    return this.#port.keys(identity.id);
  }

  async updateProfile(caller: Caller | null, id: string, change: ProfileChange): Promise<Identity> {
    const identity = await this.#own(caller, id);
    const updated = await this.#port.updateProfile(identity.id, {
      ...(change.name !== undefined && { name: change.name === null ? null : agentNameOf(change.name) }),
      ...(change.email !== undefined && { email: change.email === null ? null : this.#email(change.email) }),
    });
    return updated ?? identity;
  }

  /** The old key signs the request; the new one signs `rotationText`, so that nobody takes a key that is not theirs. */
  async rotate(
    caller: Caller | null,
    id: string,
    input: { public_key: string; proof: string },
    signature: CheckedSignature | null,
  ): Promise<Identity> {
    const identity = await this.#own(caller, id);
    if (input.public_key === '') throw refuse('publicKeyMissing');
    const key = decodePublicKey(input.public_key);
    if (key === undefined) throw refuse('publicKey');
    const proof = decodeSignature(input.proof);
    const text = rotationText(identity.id, identity.publicKey, input.public_key);
    if (proof === undefined || !verifySignature(key, text, proof)) throw refuse('rotationProof');
    const request = signature === null ? null : proofOf(signature, input.public_key);
    if (request === null) throw refuse('missingAuthHeaders');
    const outcome = await this.#port.rotateKey({
      id: identity.id,
      oldPublicKey: identity.publicKey,
      newPublicKey: input.public_key,
      proof: request,
    });
    if (outcome === 'taken') throw refuse('keyTaken');
    if (outcome === 'stale') throw refuse('keyStale');
    return { ...identity, publicKey: input.public_key };
  }

  /**
   * The identity, if this caller may link it so. It takes both: the user opens its data, and the
   * identity agrees to speak for that user from now on. One that does so already has agreed.
   */
  async checkLink(
    caller: Caller,
    id: string,
    request: LinkRequest,
    consent: LinkConsent | null,
  ): Promise<Identity> {
    const identity = await this.#linkable(caller, id);
    checkScopeNamespaces(request.namespaces, 'body.namespaces', this.#limits);
    checkReach(caller.scopes, request.namespaces);
    if (caller.kind === 'operator') return identity;
    if (identity.link === null) this.#checkConsent(identity, request.agentId, consent);
    else if (identity.link.user !== request.user)
      throw new StoaError('conflict', 'The identity is linked to another user.', {
        fix: 'That user has to unlink it first.',
      });
    return identity;
  }

  #checkConsent({ id, publicKey }: Identity, agentId: string, consent: LinkConsent | null): void {
    const about = {
      fix: `Let the identity sign "${linkText(id, agentId, 0).slice(0, -1)}" and the time in milliseconds, and send both as "consent".`,
    };
    if (consent === null)
      throw new StoaError('forbidden', 'The identity has not agreed to this link.', about);
    const ageMs = this.#port.nowMs() - consent.signed_at;
    if (
      ageMs >= this.#limits.linkConsentSecondsMax * 1000 ||
      ageMs < -this.#limits.signatureAheadSecondsMax * 1000
    ) {
      throw new StoaError('forbidden', 'The consent is too old, or from the future.', about);
    }
    const key = decodePublicKey(publicKey);
    const signature = decodeSignature(consent.signature);
    if (
      key === undefined ||
      signature === undefined ||
      !verifySignature(key, linkText(id, agentId, consent.signed_at), signature)
    ) {
      throw new StoaError('forbidden', "The consent is not signed with the identity's key.", about);
    }
  }

  /** Lets the identity's signature open its user's data. */
  async link(
    caller: Caller,
    id: string,
    request: LinkRequest,
    consent: LinkConsent | null = null,
  ): Promise<Identity> {
    const identity = await this.checkLink(caller, id, request, consent);
    const linked = await this.#port.link(identity.id, { ...request, linkedAtMs: this.#port.nowMs() });
    return linked ?? identity;
  }

  /** Which agent an identity speaks for; null for none, and for an identity that is not there. */
  async linkOf(id: string): Promise<Identity['link']> {
    return (await this.#port.identity(id))?.link ?? null;
  }

  async unlink(caller: Caller, id: string): Promise<Identity> {
    const isOwn = caller.identity !== null && caller.identity === canonicalUuid(id);
    const identity = isOwn ? await this.get(id) : await this.#linkable(caller, id);
    if (identity.link === null || (identity.link.user !== caller.user && caller.kind !== 'operator')) {
      throw new StoaError('not_found', 'The identity is not linked to this user.');
    }
    return (await this.#port.link(identity.id, null)) ?? identity;
  }

  async #linkable(caller: Caller, id: string): Promise<Identity> {
    // Another agent's signature must not hand out more than the user gave it.
    if (caller.kind === 'agent' || !caller.scopes.write)
      throw new StoaError('forbidden', 'Only a user or the operator links identities.');
    const canonical = canonicalUuid(id);
    const identity = canonical === undefined ? undefined : await this.#port.identity(canonical);
    if (identity === undefined)
      throw new StoaError('not_found', 'There is no such identity.', {
        fix: 'Register its public key with POST /register first.',
      });
    return identity;
  }

  async #own(caller: Caller | null, id: string): Promise<Identity> {
    if (caller === null) throw refuse('missingAuthHeaders');
    const identity = await this.get(id);
    if (identity.id !== caller.identity) throw refuse('notYourProfile');
    return identity;
  }

  #email(text: string): string | null {
    const email = text.trim();
    if (email === '') return null;
    if (!isEmail(email, this.#limits.emailBytesMax)) throw refuse('email');
    return email;
  }
}

/** A link opens no more than the credentials that make it: a narrow token could otherwise widen itself with a key of its own. */
function checkReach({ namespaces: own }: Scopes, asked: readonly string[] | null): void {
  if (own === null || asked?.every((namespace) => own.includes(namespace)) === true) return;
  throw new StoaError('forbidden', 'A link reaches no more namespaces than the credentials that make it.', {
    fix: `Name "namespaces" among ${own.join(', ')}.`,
  });
}
