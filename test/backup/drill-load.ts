/** The load of the drill: workers that write to every domain, and what was acknowledged to them. */
import { operatorCaller } from '../../src/core/caller.js';
import type { Stoa } from '../../src/index.js';
import type { FeedCommit } from '../../src/feed/port.js';
import type { DirectMessage } from '../../src/messaging/model.js';
import { documentPath } from '../../src/core/text/path-segment.js';
import { publicRoom } from '../messaging/public-room.js';

export const isLong = process.env['DRILL'] === 'full';
export const size = isLong
  ? { rounds: 8, operationsPerRound: 2_000, workers: 16 }
  : { rounds: 3, operationsPerRound: 120, workers: 6 };
export const users = ['ada', 'bob', 'eve'];
export const namespace = 'drill';
/** The agent of each user that claims tasks. */
export const worker = 'worker';

/** What every acknowledged version of a thing looked like; undefined where the version is a deletion. */
export class Acknowledged {
  readonly #contents = new Map<string, unknown>();
  /** Agents whose presence changes with their calls, without an answer that says so. */
  readonly workers = new Set<string>();
  count = 0;

  add(kind: Kind, id: string, version: number | null, content: unknown): void {
    this.#contents.set(`${kind} ${id} ${version}`, content);
    this.count += 1;
  }

  /** Everything that there was after these commits of the feed. */
  after(commits: readonly Omit<FeedCommit, 'position'>[]): Map<string, unknown> {
    const found = new Map<string, unknown>();
    for (const { changes } of commits) {
      for (const { kind, id: given, user, version } of changes) {
        const thing = kindOf(kind);
        if (thing === undefined || this.workers.has(given)) continue;
        const id = thing === 'document' ? `${user} ${given}` : given;
        if (kind === 'document.deleted' || kind === 'message.deleted') {
          found.delete(`${thing} ${id}`);
          continue;
        }
        const name = `${thing} ${id} ${version}`;
        if (!this.#contents.has(name))
          throw new Error(`The feed has ${kind} of ${name}, which nobody was told of.`);
        found.set(`${thing} ${id}`, this.#contents.get(name));
      }
    }
    return found;
  }
}

const kinds = ['document', 'agent', 'task', 'message', 'direct'] as const;
type Kind = (typeof kinds)[number];

export function kindOf(change: string): Kind | undefined {
  return kinds.find((kind) => change.startsWith(`${kind}.`));
}

/** Where messages are: rooms by id, and the identities that have inboxes. */
export interface Places {
  rooms: string[];
  inboxes: string[];
}

/** Workers that write to every domain, each waiting for its acknowledgement, until they are told to pause. */
export class Load {
  readonly #stoa: Stoa;
  readonly #model: Acknowledged;
  readonly #agents: { user: string; id: string }[] = [];
  readonly #sessions = new Map<string, { project: string; session: string }>();
  readonly places: Places = { rooms: [], inboxes: [] };
  #step = 0;

  constructor(stoa: Stoa, model: Acknowledged) {
    this.#stoa = stoa;
    this.#model = model;
  }

  async prepare(): Promise<void> {
    for (const user of users) {
      const caller = operatorCaller(user);
      const workspace = await this.#stoa.workspaces.createWorkspace(caller, {
        name: 'drill',
        claude_key: 'secret',
      });
      const project = await this.#stoa.workspaces.createProject(caller, workspace.id, { name: 'drill' });
      const session = await this.#stoa.workspaces.createSession(caller, project.id, { status: 'active' });
      this.#sessions.set(user, { project: project.id, session: session.id });
      const { agent_id } = await this.#stoa.registry.createAgent(caller, { name: worker });
      this.places.inboxes.push(await this.#sendTo(user, { to: worker, byName: true }, 'whispered first'));
      this.#model.workers.add(agent_id);
    }
    for (const is_private of [false, true]) {
      const room = await this.#stoa.messaging.rooms.create(
        operatorCaller('ada'),
        {
          name: is_private ? 'vault' : 'square',
          is_private,
          key: is_private ? 'a key of sixteen characters' : '',
          owner: null,
        },
        null,
      );
      this.places.rooms.push(room.id);
    }
  }

  async run(operations: number): Promise<void> {
    const end = this.#step + operations;
    await Promise.all(
      Array.from({ length: size.workers }, async () => {
        while (this.#step < end) {
          this.#step += 1;
          await this.#one(this.#step);
        }
      }),
    );
  }

  async #one(step: number): Promise<void> {
    const user = users[step % users.length] as string;
    const verbs = [
      this.#set,
      this.#set,
      this.#remove,
      this.#createAgent,
      this.#label,
      this.#createTask,
      this.#work,
      this.#post,
      this.#unsay,
      this.#send,
      this.#acknowledge,
    ];
    await (verbs[(step * 31) % verbs.length] as (user: string, step: number) => Promise<void>).call(
      this,
      user,
      step,
    );
  }

  async #set(user: string, step: number): Promise<void> {
    const key = `k${step % 40}`;
    const value = { step, text: 'x'.repeat(step % 300) };
    const { version } = await this.#stoa.data.set(operatorCaller(user), namespace, key, value);
    this.#model.add('document', documentName(user, key), version, value);
  }

  /** With a unique key: a new document starts again at version 1, and two contents would share a name. */
  async #remove(user: string, step: number): Promise<void> {
    const caller = operatorCaller(user);
    const { version } = await this.#stoa.data.set(caller, namespace, `gone ${step}`, step);
    this.#model.add('document', documentName(user, `gone ${step}`), version, step);
    await this.#stoa.data.delete(caller, namespace, `gone ${step}`);
  }

  async #createAgent(user: string, step: number): Promise<void> {
    const agent = await this.#stoa.registry.createAgent(operatorCaller(user), { name: `agent ${step}` });
    this.#model.add('agent', agent.agent_id, agent.version, agent);
    this.#agents.push({ user, id: agent.agent_id });
  }

  async #label(_user: string, step: number): Promise<void> {
    const chosen = this.#agents[step % Math.max(1, this.#agents.length)];
    if (chosen === undefined) return;
    const agent = await this.#stoa.registry.updateAgent(operatorCaller(chosen.user), chosen.id, {
      labels: { step: String(step) },
    });
    this.#model.add('agent', agent.agent_id, agent.version, agent);
  }

  async #createTask(user: string, step: number): Promise<void> {
    const task = await this.#stoa.workspaces.createTask(
      operatorCaller(user),
      this.#sessions.get(user)?.session as string,
      { command: `run ${step}` },
    );
    this.#model.add('task', task.id, task.version, task);
  }

  async #work(user: string, step: number): Promise<void> {
    const caller = operatorCaller(user, worker);
    const claim = await this.#stoa.workspaces.claimTask(caller, this.#sessions.get(user)?.project as string);
    if (claim === null) return;
    this.#model.add('task', claim.task.id, claim.task.version, claim.task);
    const done = await this.#stoa.workspaces.completeTask(caller, claim.task.id, {
      fence: claim.lease.fence,
      output: `done ${step}`,
    });
    this.#model.add('task', done.id, done.version, done);
  }

  async #post(user: string, step: number): Promise<void> {
    await this.#say(user, this.places.rooms[step % this.places.rooms.length] as string, `said ${step}`);
  }

  async #unsay(user: string, step: number): Promise<void> {
    const room = this.places.rooms[0] as string;
    const id = await this.#say(user, room, `unsaid ${step}`);
    await this.#stoa.messaging.rooms.remove(operatorCaller(user), { room }, id);
  }

  async #say(user: string, room: string, body: string): Promise<string> {
    const { rooms, port } = this.#stoa.messaging;
    const { id } = await rooms.post(operatorCaller(user), { room }, () => ({ body, pid: '' }), null);
    this.#model.add('message', `${room}/${id}`, null, await port.message(publicRoom(room), id));
    return id;
  }

  async #send(user: string, step: number): Promise<void> {
    const to = this.places.inboxes[(step * 7) % this.places.inboxes.length] as string;
    await this.#sendTo(user, { to }, `whispered ${step}`);
  }

  /** Returns the identity that got the message. */
  async #sendTo(user: string, to: { to: string; byName?: boolean }, body: string): Promise<string> {
    const { direct, port } = this.#stoa.messaging;
    const { id, recipient } = await direct.send(operatorCaller(user), to, { body }, null);
    const { items } = await port.inbox(recipient, { beforeMs: null, limit: 100 });
    const message = items.find((one) => one.id === id);
    if (message === undefined) throw new Error(`The direct message ${id} is not in its inbox.`);
    this.#model.add('direct', id, null, contentOf(message));
    return recipient;
  }

  async #acknowledge(user: string): Promise<void> {
    const { direct } = this.#stoa.messaging;
    const caller = operatorCaller(user);
    const { items } = await direct.pending(caller, 0, 5, 0, AbortSignal.timeout(60_000));
    if (items.length > 0)
      await direct.acknowledge(
        caller,
        items.map(({ id }) => id),
      );
  }
}

/** The feed does not contain acknowledgements; the comparison of all bytes covers them. */
export function contentOf({
  acknowledged: _acknowledged,
  ...content
}: DirectMessage): Omit<DirectMessage, 'acknowledged'> {
  return content;
}

/** The path of a document in the feed does not say whose it is. */
export function documentName(user: string, key: string): string {
  return `${user} ${documentPath(namespace, key)}`;
}
