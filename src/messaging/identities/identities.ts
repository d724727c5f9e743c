/** Identities: registered by key, changed and rotated only by the holder of the key, linked by their user. */
import { StoaError } from '../../core/errors.js';
import { type Caller, type Scopes, requireWriteScope } from '../../core/caller.js';
import type { Writer } from '../../core/write.js';
import { checkScopeNamespaces } from '../../identity/scope-namespaces.js';
import { decodePublicKey, decodeSignature, linkText, verifySignature } from '../../identity/signatures.js';
import type { Limits } from '../../core/settings/limits.js';
import type { SignedRequest } from './authentication.js';
import type { Identity, IdentityKey } from '../model.js';
import type { MessagingPort } from '../port.js';
import type { CheckedSignature } from './proof.js';
import type { Recipients } from './recipients.js';
import { refuse } from '../refusals.js';
import { type MessagingSteps, type ProfileChange, type Registration, writePrepared } from '../steps.js';
import { canonicalUuid } from './uuid.js';

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
  signed_at: string;
  signature: string;
}

export interface IdentitiesOptions {
  writer: Writer;
  port: MessagingPort;
  limits: Limits;
  steps: MessagingSteps;
  recipients: Recipients;
}

export class Identities {
  readonly #writer: Writer;
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  readonly #steps: MessagingSteps;
  readonly #recipients: Recipients;

  constructor({ writer, port, limits, steps, recipients }: IdentitiesOptions) {
    this.#writer = writer;
    this.#port = port;
    this.#limits = limits;
    this.#steps = steps;
    this.#recipients = recipients;
  }

  /**
   * Registering a known key returns its identity unchanged, except that a signature verifies an unproven
   * registration.
   */
  register(
    input: Registration,
    request: Pick<SignedRequest, 'headers' | 'rawBody'>,
  ): Promise<{ id: string; created: boolean }> {
    return writePrepared(this.#writer, null, () => this.#steps.register(input, request));
  }

  async get(id: string): Promise<Identity> {
    const canonical = canonicalUuid(id);
    if (canonical === undefined) throw refuse('agentId');
    const identity = await this.#port.identity(canonical);
    if (identity === undefined) throw refuse('agentUnknown');
    return identity;
  }

  /** The identity with this id, or of the caller's agent with this name or id. */
  find(caller: Caller, reference: string): Promise<Identity> {
    return this.#recipients.find(caller, reference);
  }

  /** The ids of the identities under which an agent writes messages. */
  of(user: string, agent: string): Promise<string[]> {
    return this.#recipients.identitiesOf(user, agent);
  }

  async keys(id: string): Promise<IdentityKey[]> {
    const identity = await this.get(id);
    return this.#port.keys(identity.id);
  }

  updateProfile(caller: Caller | null, id: string, change: ProfileChange): Promise<Identity> {
    return writePrepared(this.#writer, caller, () => this.#steps.updateProfile(caller, id, change));
  }

  rotate(
    caller: Caller | null,
    id: string,
    input: { public_key: string; proof: string },
    signature: CheckedSignature | null,
  ): Promise<Identity> {
    return writePrepared(this.#writer, caller, () => this.#steps.rotateKey(caller, id, input, signature));
  }

  /**
   * The identity, if this caller may link it. Both sides must agree: the user gives access to its
   * data, and the identity consents to act for the user. An identity that is linked already has consented.
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
      throw new StoaError('conflict', `The identity ${id} is linked to another user.`, {
        fix: 'Ask the other user to unlink the identity first.',
      });
    return identity;
  }

  #checkConsent({ id, publicKey }: Identity, agentId: string, consent: LinkConsent | null): void {
    const about = {
      fix: `Sign "${linkText(id, agentId, '')}" followed by the time (2030-01-31T12:00:00.000Z) with the key of the identity. Send the signature and the time as "consent".`,
    };
    if (consent === null)
      throw new StoaError('forbidden', 'The request has no consent of the identity to this link.', about);
    const ageMs = this.#port.nowMs() - Date.parse(consent.signed_at);
    if (
      ageMs >= this.#limits.linkConsentSecondsMax * 1000 ||
      ageMs < -this.#limits.signatureAheadSecondsMax * 1000
    ) {
      const { linkConsentSecondsMax, signatureAheadSecondsMax } = this.#limits;
      throw new StoaError(
        'forbidden',
        `signed_at of the consent is ${Math.abs(Math.round(ageMs / 1000))} seconds ${ageMs < 0 ? 'ahead of' : 'behind'} the server's clock. Expected at most ${linkConsentSecondsMax} behind (linkConsentSecondsMax) and ${signatureAheadSecondsMax} ahead (signatureAheadSecondsMax).`,
        about,
      );
    }
    const key = decodePublicKey(publicKey);
    const signature = decodeSignature(consent.signature);
    if (
      key === undefined ||
      signature === undefined ||
      !verifySignature(key, linkText(id, agentId, consent.signed_at), signature)
    ) {
      throw new StoaError(
        'forbidden',
        'The signature of the consent does not match the key of the identity.',
        about,
      );
    }
  }

  /** The agent that an identity speaks for; null for no link or an unknown identity. */
  async linkOf(id: string): Promise<Identity['link']> {
    return (await this.#port.identity(id))?.link ?? null;
  }

  /** The identity, if this caller may remove its link. An identity may always unlink itself. */
  async checkUnlink(caller: Caller, id: string): Promise<Identity> {
    const isOwn = caller.identity !== null && caller.identity === canonicalUuid(id);
    const identity = isOwn ? await this.get(id) : await this.#linkable(caller, id);
    if (identity.link === null || (identity.link.user !== caller.user && caller.kind !== 'operator')) {
      throw new StoaError('not_found', `The identity ${id} is not linked to this user.`);
    }
    return identity;
  }

  async #linkable(caller: Caller, id: string): Promise<Identity> {
    // A signed agent must not give others more access than its user gave it.
    if (caller.kind === 'agent')
      throw new StoaError('forbidden', 'The caller is an agent, and an agent cannot link identities.', {
        fix: 'Use a token of the user, or of the operator.',
      });
    requireWriteScope(caller);
    const canonical = canonicalUuid(id);
    const identity = canonical === undefined ? undefined : await this.#port.identity(canonical);
    if (identity === undefined)
      throw new StoaError('not_found', `Unknown identity "${id.slice(0, 40)}".`, {
        fix: 'Check the id, or register the public key with POST /register first.',
      });
    if (identity.serverKept)
      throw new StoaError('conflict', `The server keeps the key of the identity ${identity.id}.`, {
        fix: 'Such an identity belongs to its agent and cannot be linked or unlinked. Link an identity with its own key.',
      });
    return identity;
  }
}

/** Otherwise a token limited to some namespaces could reach the others through an identity that it links. */
function checkReach({ namespaces: own }: Scopes, asked: readonly string[] | null): void {
  if (own === null || asked?.every((namespace) => own.includes(namespace)) === true) return;
  throw new StoaError(
    'forbidden',
    `The link would open ${asked === null ? 'every namespace' : `the namespaces ${asked.join(', ')}`}, but these credentials can access only ${own.join(', ')}.`,
    { fix: `Set "namespaces" to some of ${own.join(', ')}.` },
  );
}
