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

/** The claims of one transaction for the same project. They share the statement that finds their tasks. */
export class ClaimedTogether {
  readonly #claims: number;
  #rows: Promise<Row[]> | undefined;

  constructor(claims: number) {
    this.#claims = claims;
  }

  /** A ready task for one of the claims. All claims of a transaction have the same filter. */
  async next(work: WorkspacesWork, ownerId: string, claim: Claim): Promise<Row | undefined> {
    this.#rows ??= lockReady(work, ownerId, claim, this.#claims).then((rows) => [...rows]);
    return (await this.#rows).shift();
  }
}

/** The first ready tasks that no other transaction has locked: claims never wait for each other. */
function lockReady(
  work: WorkspacesWork,
  ownerId: string,
  { projectId, filter }: Claim,
  tasks: number,
): Promise<readonly Row[]> {
  const { from, accepted, order, parameters } = claimable(filter);
  return work.rows(
    `SELECT ${taskColumns}, ${clockColumn} FROM (
        SELECT t.* FROM ${from}
        WHERE t.owner_id = $1 AND t.project_id = $2 AND ${ready} ${accepted}
          AND NOT (SELECT s.removed FROM workspaces.sessions s
            WHERE s.owner_id = t.owner_id AND s.id = t.session_id LIMIT 1)
        ORDER BY ${order} LIMIT ${tasks} FOR UPDATE OF t SKIP LOCKED
      ) t ${taskParents} WHERE ${visible}`,
    [ownerId, projectId, ...parameters],
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
      : [`l.owner_id = $1 AND l.project_id = $2 AND l.label = ${ofLabel} AND l.is_ready`]),
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
