/** Finds the ready tasks for the claims of one transaction. */
import type { Owner } from '../../../../workspaces/port.js';
import type { ClaimFilter } from '../../../../workspaces/tasks/claim-filter.js';
import type { Parameter } from '../../database/connection.js';
import { clockColumn } from '../../database/database-clock.js';
import type { Row } from '../rows.js';
import { visible } from '../sessions.js';
import type { WorkspacesWork } from '../work.js';
import { ready, taskColumns, taskParents } from './rows.js';

export interface Claim {
  readonly owner: Owner;
  readonly projectId: string;
  readonly holder: string;
  readonly leaseSeconds: number;
  readonly filter: ClaimFilter;
}

/**
 * The claims of one transaction. They share the statements that find their tasks: a row that this transaction
 * has locked would be found again. All of them have the same filter.
 */
export class ClaimedTogether {
  readonly #claims: readonly Claim[];
  #found: Promise<Map<string, Row[]>> | undefined;

  constructor(claims: readonly Claim[]) {
    this.#claims = claims;
  }

  /** A ready task for one of the claims, or undefined if its project has none, or does not exist. */
  async next(work: WorkspacesWork, claim: Claim): Promise<Row | undefined> {
    this.#found ??= this.#find(work, claim.filter);
    return (await this.#found).get(lineOf(claim))?.shift();
  }

  async #find(work: WorkspacesWork, filter: ClaimFilter): Promise<Map<string, Row[]>> {
    const lines = new Map<string, Claim[]>();
    for (const claim of this.#claims) {
      const line = lineOf(claim);
      lines.set(line, [...(lines.get(line) ?? []), claim]);
    }
    const sizes = new Set(Array.from(lines.values(), ({ length }) => length));
    const found = await Promise.all(
      Array.from(sizes, async (size) => {
        const same = [...lines].filter(([, { length }]) => length === size);
        // Each line has a claim.
        const places = await Promise.all(same.map(([, [claim]]) => placeOf(work, claim as Claim)));
        const rows = await lockReady(work, filter, places, size);
        return same.map(([line], index): [string, Row[]] => [
          line,
          rows.filter((row) => Number(row['place']) === index + 1),
        ]);
      }),
    );
    return new Map(found.flat());
  }
}

/** Claims with the same value take tasks from the same line. */
function lineOf({ owner, projectId }: Claim): string {
  return JSON.stringify([owner, projectId]);
}

interface ProjectPlace {
  readonly ownerId: string | null;
  readonly projectId: string;
}

/** The operator claims in projects of any owner. */
async function placeOf(work: WorkspacesWork, { owner, projectId }: Claim): Promise<ProjectPlace> {
  const [project] =
    owner === null
      ? await work.rows<{ owner_id: string }>('SELECT owner_id FROM workspaces.projects WHERE id = $1', [
          projectId,
        ])
      : [{ owner_id: owner }];
  return { ownerId: project?.owner_id ?? null, projectId };
}

/**
 * So many of the first ready tasks of each project that no other transaction has locked: claims never wait
 * for each other. The number is part of the text, because PostgreSQL sorts all ready tasks if it does not
 * know it.
 */
function lockReady(
  work: WorkspacesWork,
  filter: ClaimFilter,
  places: readonly ProjectPlace[],
  tasks: number,
): Promise<readonly Row[]> {
  const { from, accepted, order, parameters } = claimable(filter);
  return work.rows(
    `SELECT ${taskColumns}, ${clockColumn}, given.place
      FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (owner_id, project_id, place)
        JOIN LATERAL (
          SELECT t.* FROM ${from}
          WHERE t.owner_id = given.owner_id AND t.project_id = given.project_id AND ${ready} ${accepted}
            AND NOT (SELECT s.removed FROM workspaces.sessions s
              WHERE s.owner_id = t.owner_id AND s.id = t.session_id LIMIT 1)
          ORDER BY ${order} LIMIT ${tasks} FOR UPDATE OF t SKIP LOCKED
        ) t ON true ${taskParents} WHERE ${visible}`,
    [places.map(({ ownerId }) => ownerId), places.map(({ projectId }) => projectId), ...parameters],
  );
}

interface Claimable {
  from: string;
  /** More conditions, each with AND. */
  accepted: string;
  order: string;
  parameters: Parameter[];
}

/** The tasks that the filter accepts. A required label has its own index. */
function claimable({ labels, without, skills }: ClaimFilter): Claimable {
  const parameters: Parameter[] = [];
  const next = (value: Parameter): string => `$${parameters.push(value) + 2}`;
  const [label] = labels;
  const ofLabel = label === undefined ? '' : next(label);
  const conditions = [
    ...(label === undefined
      ? []
      : [
          `l.owner_id = given.owner_id AND l.project_id = given.project_id AND l.label = ${ofLabel} AND l.is_ready`,
        ]),
    ...(labels.length > 1 ? [`t.labels @> ${next(labels)}::text[]`] : []),
    ...(without.length > 0 ? [`NOT t.labels && ${next(without)}::text[]`] : []),
    ...(skills === null ? [] : [`t.labels <@ ${next(skills)}::text[]`]),
  ];
  return {
    from:
      label === undefined
        ? 'workspaces.tasks t'
        : 'workspaces.task_labels l JOIN workspaces.tasks t ON t.owner_id = l.owner_id AND t.id = l.task_id',
    accepted: conditions.map((condition) => `AND ${condition}`).join(' '),
    order:
      label === undefined
        ? 't.priority DESC, t.created_at, t.id'
        : 'l.priority DESC, l.created_at, l.task_id',
    parameters,
  };
}
