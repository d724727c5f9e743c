/**
 * The verbs of most tasks: created, claimed and completed by many callers at once, so each kind shares
 * transactions.
 */
import type { Caller } from '../../../../core/caller.js';
import type { Task } from '../../../../workspaces/model.js';
import type { ClaimOutcome } from '../../../../workspaces/port.js';
import { acceptsAll } from '../../../../workspaces/tasks/claim-filter.js';
import { GroupedWrites, type RunWrite } from '../../write/group.js';
import { PostgresStep, type RowName } from '../../write/step.js';
import type { Work } from '../../write/work.js';
import type { PostgresWriter } from '../../write/writer.js';
import type { WorkspacesWork } from '../work.js';
import { type Claim, ClaimedTogether } from './claimed-together.js';
import { claimTask } from './claims.js';
import { taskRow } from './rows.js';

interface TaskWrite {
  readonly caller: Caller;
  readonly id: string;
  readonly run: RunWrite<Task>;
}

interface ClaimWrite {
  readonly caller: Caller;
  readonly claim: Claim;
}

type RunTask = (work: WorkspacesWork) => Promise<Task>;

export class GroupedTasks {
  readonly #part: (work: Work) => WorkspacesWork;
  readonly #creates: GroupedWrites<TaskWrite, Task>;
  readonly #completions: GroupedWrites<TaskWrite, Task>;
  readonly #claims: GroupedWrites<ClaimWrite, ClaimOutcome>;
  /** Claims without an owner. In one group with claims of the owner they could find the same task. */
  readonly #operatorClaims: GroupedWrites<ClaimWrite, ClaimOutcome>;

  constructor(writer: PostgresWriter, part: (work: Work) => WorkspacesWork) {
    this.#part = part;
    const ofTask = {
      writer,
      prepare: () => (write: TaskWrite) => write.run,
      nameOf: ({ id }: TaskWrite) => id,
    };
    const ofClaim = {
      writer,
      prepare: (writes: readonly ClaimWrite[]) => {
        const together = new ClaimedTogether(writes.map(({ claim }) => claim));
        return ({ claim }: ClaimWrite) =>
          (work: Work) =>
            claimTask(work.part(part), claim, together);
      },
    };
    this.#creates = new GroupedWrites(ofTask);
    this.#completions = new GroupedWrites(ofTask);
    this.#claims = new GroupedWrites(ofClaim);
    this.#operatorClaims = new GroupedWrites(ofClaim);
  }

  create(id: string, run: RunTask): PostgresStep<Task> {
    return this.#step([], this.#creates, id, run);
  }

  complete(id: string, run: RunTask): PostgresStep<Task> {
    return this.#step([taskRow(id)], this.#completions, id, run);
  }

  claim(claim: Claim): PostgresStep<ClaimOutcome> {
    const group = claim.owner === null ? this.#operatorClaims : this.#claims;
    return new PostgresStep(
      [],
      (work) => claimTask(work.part(this.#part), claim),
      // Claims with different filters could find the same task, so those with a filter are not grouped.
      acceptsAll(claim.filter) ? (caller) => group.add({ caller, claim }) : undefined,
    );
  }

  #step(
    locks: readonly RowName[],
    group: GroupedWrites<TaskWrite, Task>,
    id: string,
    run: RunTask,
  ): PostgresStep<Task> {
    const runIn = (work: Work): Promise<Task> => run(work.part(this.#part));
    return new PostgresStep(locks, runIn, (caller) => group.add({ caller, id, run: runIn }));
  }
}
