/**
 * Every limit of Stoa by name. Their groups are in `limits/`; an operator can change those marked as
 * settings.
 */
import { StoaError } from '../errors.js';
import { commitLimits } from './limits/commit.js';
import { dataLimits } from './limits/data.js';
import type { LimitDefinition } from './limits/definition.js';
import { feedLimits } from './limits/feed.js';
import { findLimits } from './limits/find.js';
import { lockLimits } from './limits/locks.js';
import { mcpLimits } from './limits/mcp.js';
import { messagingLimits } from './limits/messaging.js';
import { operationsLimits } from './limits/operations.js';
import { rateLimits } from './limits/rates.js';
import { registryLimits } from './limits/registry.js';
import { securityLimits } from './limits/security.js';
import { serverLimits } from './limits/server.js';
import { storageLimits } from './limits/storage.js';
import { vectorLimits } from './limits/vectors.js';
import { workspaceLimits } from './limits/workspaces.js';

/** The groups have the same names as the groups of settings. */
export const limitGroups = {
  server: serverLimits,
  storage: storageLimits,
  feed: feedLimits,
  commit: commitLimits,
  data: dataLimits,
  registry: registryLimits,
  workspaces: workspaceLimits,
  locks: lockLimits,
  messaging: messagingLimits,
  find: findLimits,
  vectors: vectorLimits,
  rates: rateLimits,
  security: securityLimits,
  operations: operationsLimits,
  mcp: mcpLimits,
} as const;

export const limitDefinitions = {
  ...serverLimits,
  ...storageLimits,
  ...feedLimits,
  ...commitLimits,
  ...dataLimits,
  ...registryLimits,
  ...workspaceLimits,
  ...lockLimits,
  ...messagingLimits,
  ...findLimits,
  ...vectorLimits,
  ...rateLimits,
  ...securityLimits,
  ...operationsLimits,
  ...mcpLimits,
} as const;

export type LimitName = keyof typeof limitDefinitions;
export type Limits = { readonly [Name in LimitName]: number };

const rows: Readonly<Record<LimitName, LimitDefinition>> = limitDefinitions;
const limitNames = Object.keys(rows) as readonly LimitName[]; // Object.keys forgets the type of the keys.

/** Whether an operator can change the limit. */
export function isLimitSetting(name: LimitName): boolean {
  return rows[name].setting === true;
}

export const limitSettingNames: readonly LimitName[] = limitNames.filter(isLimitSetting);
export const fixedLimitNames: readonly LimitName[] = limitNames.filter((name) => !isLimitSetting(name));

/** The least and the greatest whole number that a limit can be set to. */
export function limitBoundsOf(name: LimitName): { min: number; max: number } {
  const { positive, max = Number.MAX_SAFE_INTEGER } = rows[name];
  return { min: positive === true ? 1 : 0, max };
}

/**
 * The defaults with the given values over them. Code may also change fixed limits and use fractions of a
 * second.
 */
export function limitsWith(overrides: Partial<Limits> = {}): Limits {
  // Object.entries forgets the type of the keys.
  for (const [name, value] of Object.entries(overrides)) checkLimit(name as LimitName, value);
  const defaults = Object.fromEntries(limitNames.map((name) => [name, rows[name].default]));
  // Object.fromEntries forgets which keys it had; they are exactly those of the table.
  return { ...(defaults as Limits), ...overrides };
}

function checkLimit(name: LimitName, value: number): void {
  if (!Object.hasOwn(rows, name))
    throw new StoaError('invalid_config', `Unknown limit "${name}".`, {
      fix: 'docs/configuration.md lists every limit.',
    });
  const { positive, max } = rows[name];
  if ((positive === true ? value > 0 : value >= 0) && value <= (max ?? Number.POSITIVE_INFINITY)) return;
  const bounds = `${positive === true ? 'more than 0' : '0 or more'}${max === undefined ? '' : ` and at most ${max}`}`;
  throw new StoaError('invalid_config', `limits.${name} must be ${bounds}, got ${value}.`, {
    details: { setting: `limits.${name}` },
  });
}
