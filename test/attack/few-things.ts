/** Valid requests about very few names, so that each meets others that change, rename or delete the same thing. */
import type { Random } from './random.js';

export interface FewThingsRequest {
  method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  path: string;
  body?: object | undefined;
  headers: Record<string, string>;
}

type Made = Omit<FewThingsRequest, 'headers'>;

function removes({ method, path }: Made): boolean {
  return (method === 'DELETE' && !/\/(?:data|locks)\//.test(path)) || path.endsWith('/purge');
}

const names = ['one', 'two', 'three'] as const;
/** How many ids of each kind are remembered: old ones name what is gone. */
const idsMax = 6;
const idKinds = {
  workspace: /"id":"(ws_[^"]+)"/g,
  project: /"id":"(proj_[^"]+)"/g,
  session: /"id":"(sess_[^"]+)"/g,
  task: /"id":"(task_[^"]+)"/g,
  agentSession: /"session_id":"([0-9a-f-]{36})"/g,
  room: /"room_id":"([0-9a-f-]{36})"/g,
  message: /"id":"([0-9A-HJKMNP-TV-Z]{26})"/g,
} as const;
type IdKind = keyof typeof idKinds;

export class FewThings {
  readonly #random: Random;
  readonly #ids = new Map<IdKind, string[]>();
  readonly #claims: { task: string; fence: number }[] = [];
  readonly #makers: readonly (() => Made)[];

  constructor(random: Random) {
    this.#random = random;
    this.#makers = [...this.#data(), ...this.#agents(), ...this.#work(), ...this.#messages()];
  }

  next(): FewThingsRequest {
    const random = this.#random;
    const headers: Record<string, string> = {};
    if (random.is(0.5)) headers['stoa-agent'] = random.of(names);
    let made = random.of(this.#makers)();
    // Enough must be left for the others.
    while (removes(made) && random.is(0.8)) made = random.of(this.#makers)();
    if (made.method === 'POST' && random.is(0.2)) headers['idempotency-key'] = String(random.below(20));
    return { ...made, headers };
  }

  /** Remembers the ids of an answer. */
  learn(text: string): void {
    for (const [kind, pattern] of Object.entries(idKinds) as [IdKind, RegExp][])
      for (const [, id] of text.matchAll(pattern)) if (id !== undefined) this.#add(kind, id);
    const claim = /"id":"(task_[^"]+)".*"fence":(\d+)/s.exec(text);
    if (claim === null) return;
    this.#claims.push({ task: claim[1] as string, fence: Number(claim[2]) });
    if (this.#claims.length > idsMax) this.#claims.shift();
  }

  #add(kind: IdKind, id: string): void {
    const known = this.#ids.get(kind) ?? [];
    if (known.includes(id)) return;
    known.push(id);
    if (known.length > idsMax) known.splice(this.#random.below(idsMax), 1);
    this.#ids.set(kind, known);
  }

  #id(kind: IdKind): string {
    const known = this.#ids.get(kind) ?? [];
    return known.length === 0 ? 'unknown' : this.#random.of(known);
  }

  #name(): string {
    return this.#random.of(names);
  }

  #claim(): { task: string; fence: number } {
    return this.#claims.length === 0 ? { task: 'unknown', fence: 1 } : this.#random.of(this.#claims);
  }

  #set(): { value: string; ttl?: number } {
    const value = 'x'.repeat(this.#random.of([1, 10, 9_000]));
    return this.#random.is(0.3) ? { value, ttl: 1 } : { value };
  }

  #data(): (() => Made)[] {
    const place = (): string => `/v1/data/${this.#name()}/${this.#random.below(8)}`;
    return [
      () => ({ method: 'PUT', path: place(), body: this.#set() }),
      () => ({ method: 'PUT', path: place(), body: this.#set() }),
      () => ({ method: 'GET', path: place() }),
      () => ({ method: 'DELETE', path: place() }),
      () => ({ method: 'DELETE', path: `/v1/data/${this.#name()}` }),
      () => ({
        method: 'POST',
        path: '/v1/commit',
        body: {
          operations: [
            { op: 'data.set', namespace: this.#name(), key: String(this.#random.below(8)), ...this.#set() },
            { op: 'room.post', room: this.#name(), body: 'in a commit' },
            { op: 'data.delete', namespace: this.#name(), key: String(this.#random.below(8)) },
          ].slice(this.#random.below(2)),
        },
      }),
      () => ({ method: 'PUT', path: `/v1/locks/${this.#name()}`, body: { ttl: 1 } }),
      () => ({ method: 'DELETE', path: `/v1/locks/${this.#name()}` }),
    ];
  }

  #agents(): (() => Made)[] {
    const agent = (): string => `/v1/agents/${this.#name()}`;
    const moves = ['start', 'stop', 'restart', 'hibernate', 'wake', 'heartbeat', 'forget'] as const;
    return [
      () => ({
        method: 'POST',
        path: '/v1/agents',
        body: { name: this.#name(), labels: { a: this.#name() } },
      }),
      () => ({ method: 'POST', path: `${agent()}/${this.#random.of(moves)}`, body: {} }),
      () => ({ method: 'PATCH', path: agent(), body: { name: this.#name() } }),
      () => ({ method: 'PATCH', path: agent(), body: { status: this.#random.of(['stopping', 'stopped']) } }),
      () => ({ method: 'DELETE', path: agent() }),
      () => ({ method: 'POST', path: `${agent()}/sessions`, body: {} }),
      () => ({ method: 'DELETE', path: `${agent()}/sessions/${this.#id('agentSession')}` }),
    ];
  }

  #work(): (() => Made)[] {
    const project = (): string => `/v1/projects/${this.#id('project')}`;
    const withFence = (verb: string, body: object): Made => {
      const { task, fence } = this.#claim();
      return { method: 'POST', path: `/v1/tasks/${task}/${verb}`, body: { fence, ...body } };
    };
    const task = (): Made => ({
      method: 'POST',
      path: `/v1/sessions/${this.#id('session')}/tasks`,
      body: {
        command: 'do it',
        ...(this.#random.is(0.3) && { depends_on: [this.#id('task')] }),
        ...(this.#random.is(0.3) && { labels: [this.#name()] }),
        ...(this.#random.is(0.2) && { timeout: 1 }),
      },
    });
    const claim = (): Made => ({
      method: 'POST',
      path: `${project()}/tasks/claim`,
      body: { lease_seconds: 1 },
    });
    return [
      () => ({ method: 'POST', path: '/v1/workspaces', body: { name: this.#name() } }),
      () => ({
        method: 'POST',
        path: `/v1/workspaces/${this.#id('workspace')}/projects`,
        body: { name: this.#name() },
      }),
      () => ({
        method: 'POST',
        path: `${project()}/sessions`,
        body: { status: 'active', max_idle_time: 2, takeover: true },
      }),
      task,
      task,
      claim,
      claim,
      () => withFence('complete', { output: 'done' }),
      () => withFence('fail', { error: 'no' }),
      () => withFence('release', {}),
      () => withFence('ask', { question: 'why?' }),
      () => ({ method: 'POST', path: `/v1/tasks/${this.#id('task')}/answer`, body: { answer: 'so' } }),
      () => ({ method: 'POST', path: `/v1/tasks/${this.#id('task')}/cancel`, body: {} }),
      () => ({ method: 'POST', path: `/v1/tasks/${this.#id('task')}/retry`, body: {} }),
      () => ({ method: 'DELETE', path: `/v1/tasks/${this.#id('task')}` }),
      () => ({ method: 'DELETE', path: `/v1/sessions/${this.#id('session')}` }),
      () => ({ method: 'DELETE', path: project() }),
      () => ({ method: 'POST', path: `${project()}/${this.#random.of(['restore', 'purge'])}`, body: {} }),
      () => ({
        method: 'POST',
        path: `/v1/workspaces/${this.#id('workspace')}/${this.#random.of(['restore', 'purge'])}`,
        body: {},
      }),
      () => ({ method: 'DELETE', path: `/v1/workspaces/${this.#id('workspace')}` }),
    ];
  }

  #messages(): (() => Made)[] {
    const room = (): string =>
      this.#random.is(0.5) ? `/v1/rooms/${this.#name()}` : `/v1/rooms/${this.#id('room')}`;
    const post = (): Made => ({ method: 'POST', path: `${room()}/messages`, body: { body: this.#name() } });
    return [
      post,
      post,
      () => ({ method: 'POST', path: '/v1/rooms', body: { name: this.#name() } }),
      () => ({ method: 'POST', path: '/room', body: { name: this.#name() } }),
      () => ({ method: 'PATCH', path: room(), body: { name: this.#name() } }),
      () => ({ method: 'PATCH', path: room(), body: { retention_seconds: 1 + this.#random.below(3) } }),
      () => ({ method: 'DELETE', path: room() }),
      () => ({ method: 'GET', path: '/v1/rooms?public=true' }),
      () => ({ method: 'DELETE', path: `${room()}/messages/${this.#id('message')}` }),
      () => ({ method: 'POST', path: '/v1/inbox', body: { to: this.#name(), body: 'psst' } }),
      () => ({ method: 'POST', path: '/v1/inbox/ack', body: { message_ids: [this.#id('message')] } }),
    ];
  }
}
