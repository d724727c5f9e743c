/** The writes of identity as steps: checked, allowed, and with the answer that their caller sees. */
import { type Caller, requireOperator } from '../core/caller.js';
import type { Step } from '../core/write.js';
import { StoaError } from '../core/errors.js';
import { checkCharacters } from '../core/settings/field-limits.js';
import type { Limits } from '../core/settings/limits.js';
import { invalidFields, validate } from '../core/validation/validate.js';
import { invalidCharacterIn } from '../core/text/invalid-character.js';
import { isoTime } from '../core/text/iso-time.js';
import type { IdentityPort } from './port.js';
import {
  type CreateTokenInput,
  type CreatedToken,
  createTokenSchema,
  tokenIdPattern,
  tokenView,
} from './schemas.js';
import { checkScopeNamespaces } from './scope-namespaces.js';
import { type TokenRecord, hashToken, newToken } from './tokens.js';
import { checkUserId } from './user-key.js';

export interface IdentityStepsOptions {
  port: IdentityPort;
  limits: Limits;
  nowMs: () => number;
}

export class IdentitySteps {
  readonly #port: IdentityPort;
  readonly #limits: Limits;
  readonly #nowMs: () => number;

  constructor({ port, limits, nowMs }: IdentityStepsOptions) {
    this.#port = port;
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** The answer contains the secret, so it must not be stored under an Idempotency-Key. */
  async createToken(caller: Caller, user: string, input: CreateTokenInput): Promise<Step<CreatedToken>> {
    requireOperator(caller, 'manage tokens');
    const { name, expires_in, expires_at, scopes } = validate(createTokenSchema, input);
    this.#checkName(name);
    checkScopeNamespaces(scopes.namespaces ?? null, 'body.scopes.namespaces', this.#limits);
    const nowMs = this.#nowMs();
    const expiresAtMs =
      expires_in !== undefined
        ? nowMs + expires_in * 1_000
        : expires_at === undefined
          ? null
          : Date.parse(expires_at);
    if (expiresAtMs !== null && expiresAtMs <= nowMs) {
      throw new StoaError('invalid_request', `expires_at is ${isoTime(expiresAtMs)}, which is in the past.`, {
        fix: `Send a time after ${isoTime(nowMs)}, or expires_in in seconds.`,
        details: { errors: [{ field: 'body.expires_at', message: 'is in the past.' }] },
      });
    }
    const owner = checkUserId(user, this.#limits);
    await this.#port.checkUser(owner);
    const { id, token } = newToken();
    const record: TokenRecord = {
      id,
      user: owner,
      name,
      purpose: 'api',
      isOperator: false,
      grantedBy: null,
      hash: hashToken(token),
      scopes: { write: scopes.write ?? true, namespaces: scopes.namespaces ?? null },
      createdAtMs: nowMs,
      expiresAtMs,
    };
    return this.#port
      .createToken(record, this.#limits.tokensPerUserMax)
      .map((stored) => ({ ...tokenView(stored, undefined), token }));
  }

  revokeTokens(caller: Caller, user: string, tokenId: string | undefined): Step<string[]> {
    requireOperator(caller, 'manage tokens');
    if (tokenId !== undefined && !tokenIdPattern.test(tokenId))
      throw new StoaError(
        'invalid_id_digits',
        `Invalid token id "${tokenId.slice(0, 40)}". Expected 20 lowercase hexadecimal digits.`,
        { fix: 'Use a token_id from the list of tokens.' },
      );
    const owner = checkUserId(user, this.#limits);
    return this.#port.revokeTokens(owner, tokenId).map((revoked) => {
      if (tokenId !== undefined && revoked.length === 0)
        throw new StoaError('not_found', `The user "${owner}" has no token ${tokenId}.`);
      return revoked;
    });
  }

  #checkName(name: string): void {
    const character = invalidCharacterIn(name);
    if (character !== undefined)
      throw invalidFields([{ field: 'body.name', message: `The name contains ${character}.` }]);
    checkCharacters('body.name', name, 'tokenNameCharactersMax', this.#limits);
  }
}
