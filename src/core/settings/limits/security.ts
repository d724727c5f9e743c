/** Limits of users, tokens, signatures and secrets. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const securityLimits = {
  userIdBytesMax: { default: 256, about: 'Bytes in a user id.' },
  agentHeaderBytesMax: { default: 256, about: 'Bytes in the agent name of the Stoa-Agent header.' },
  emailBytesMax: { default: 254, about: 'Bytes in an e-mail address.' },
  tokensPerUserMax: { default: 100, about: 'Valid tokens of one user.' },
  tokensCachedMax: { default: 10_000, about: 'Verified tokens, and users, cached in memory.' },
  tokenUseSeconds: {
    default: 60,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds between writes of the time when tokens were last used.',
  },
  tokenNameCharactersMax: { default: 100, about: 'Characters in the name of a token.' },
  consoleLinkSeconds: {
    default: 600,
    positive: true,
    about: 'Seconds until a one-time sign-in link of the console expires.',
  },
  consoleSessionSeconds: {
    default: 12 * 3600,
    positive: true,
    about: 'Seconds until a console session that began with a one-time link expires.',
  },
  scopeNamespacesMax: { default: 1_000, about: 'Namespaces in the scope of a token or link.' },
  signatureAgeSecondsMax: { default: 30, about: 'Age in seconds at which a signature is refused.' },
  signatureAheadSecondsMax: {
    default: 5,
    about: 'Seconds that the time of a signature may be ahead of the clock.',
  },
  linkConsentSecondsMax: {
    default: 3600,
    about: "Age in seconds at which an identity's consent to a link is refused.",
  },
  nonceCharactersMin: { default: 24, about: 'Fewest characters in a nonce.' },
  nonceCharactersMax: { default: 128, about: 'Most characters in a nonce.' },
  nonceSeconds: { default: 180, about: 'Seconds that a used nonce is remembered.' },
  roomKeyBytesMin: { default: 16, about: 'Fewest bytes in the key of a private room.' },
  roomKeyBytesMax: {
    default: 72,
    about: 'Most bytes in the key of a private room, because bcrypt ignores the rest.',
  },
  roomKeyCacheSeconds: { default: 60, about: 'Seconds that a verified room key is not checked again.' },
  secretBytesMax: { default: 16 * 1024, about: 'Bytes of one secret.' },
} as const satisfies LimitGroup;
