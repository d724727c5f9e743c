/** Pages of a caller's namespaces, with their counts and agents. */
import type { Caller } from '../../core/caller.js';
import { type Page, type PageRequest, decodeTextCursor, encodeCursor, pageLimit } from '../../core/paging.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import { Slices } from '../../core/waiting/yielding.js';
import { compareCodePoints } from '../documents/code-point-order.js';
import type { NamespaceSummary } from '../model.js';
import type { DataPort } from '../port.js';

export interface NamespacePageRequest extends PageRequest {
  signal?: Cancellation | undefined;
}

/** In code-point order. A page is also full when its namespaces have `namespacePageAgentsMax` agents. */
export async function readNamespaces(
  port: DataPort,
  caller: Caller,
  request: NamespacePageRequest,
  limits: Limits,
): Promise<Page<NamespaceSummary>> {
  const limit = pageLimit(request.limit, limits);
  const list = JSON.stringify(['data', caller.user]);
  let after = decodeTextCursor(list, request.cursor, limits.namespaceBytesMax);
  const items: NamespaceSummary[] = [];
  const slices = new Slices();
  for (let agents = 0; items.length < limit && agents < limits.namespacePageAgentsMax;) {
    checkWanted(request.signal);
    const step = await nextNamespaces(port, caller, after, limit - items.length, request.signal);
    for (const summary of step.found) {
      items.push({ ...summary, agents: summary.agents.slice(0, limits.namespaceAgentsListedMax) });
      agents += summary.agents.length;
    }
    ({ after } = step);
    if (after === null) return { items, next_cursor: null };
    await slices.pause();
  }
  return { items, next_cursor: encodeCursor(list, Buffer.from(after ?? '')) };
}

/** Credentials that reach only some namespaces read only those, however many the user has. */
async function nextNamespaces(
  port: DataPort,
  { user, scopes }: Caller,
  after: string | null,
  limit: number,
  signal: Cancellation | undefined,
): Promise<{ found: NamespaceSummary[]; after: string | null }> {
  if (scopes.namespaces === null) {
    const found = await port.listNamespaces(user, after, limit, signal);
    return { found, after: found.at(-1)?.namespace ?? null };
  }
  const names = [...new Set(scopes.namespaces)]
    .filter((name) => after === null || compareCodePoints(name, after) > 0)
    .toSorted(compareCodePoints)
    .slice(0, limit);
  const found = names.length === 0 ? [] : await port.describeNamespaces(user, names, signal);
  return { found, after: names.at(-1) ?? null };
}
