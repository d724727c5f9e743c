/** Limits of MCP clients. */
import type { LimitGroup } from './definition.js';

export const mcpLimits = {
  mcpSessionsMax: {
    default: 1_000,
    about: 'Sessions of all MCP clients. A new session then ends the one that was idle longest.',
  },
  mcpSessionsPerUserMax: {
    default: 100,
    about: "Sessions of one user's MCP clients. A new session then ends the one that was idle longest.",
  },
  mcpSessionIdleSeconds: {
    default: 1_800,
    positive: true,
    about: 'Seconds without a request or an open stream before the session of an MCP client ends.',
  },
  mcpSubscriptionsMax: { default: 1_000, about: 'Resources that one MCP client may subscribe to.' },
  mcpResourceUriCharactersMax: {
    default: 8_192,
    about: 'Characters in the URI of a resource that an MCP client subscribes to.',
  },
  mcpBatchMax: { default: 20, about: 'Messages in one request of an MCP client.' },
  mcpMessageValuesMax: {
    default: 5_000,
    positive: true,
    about:
      'Values in one request of an MCP client, without those inside the arguments of tools. A long ' +
      'text counts as one for each 1,024 characters.',
  },
  mcpTaskLeaseSeconds: {
    default: 900,
    positive: true,
    about:
      'Seconds that a claim of an MCP client lives, unless the claim sets its own time. Any call renews it.',
  },
  mcpKeysMax: { default: 100, about: 'Keys that one recall reads.' },
  mcpAnswerBytesMax: {
    default: 2 * 1024 * 1024,
    about: 'Bytes of values in one tool result. Lists end early there; too many keys are refused.',
  },
  mcpResourcesListed: { default: 100, positive: true, about: 'Resources on a page of a list.' },
} as const satisfies LimitGroup;
