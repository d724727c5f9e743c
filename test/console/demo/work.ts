/** The tasks of the demo: in every status, with dependencies, a retry and a question. */
import type { Stoa } from '../../../src/client/index.js';
import type { Past } from './past.js';

const leaseSeconds = 600;

export class Work {
  readonly projectId: string;
  readonly #sessionId: string;
  readonly #stoa: Stoa;
  readonly #as: (agent: string) => Stoa;
  readonly #past: Past;

  private constructor(
    stoa: Stoa,
    as: (agent: string) => Stoa,
    past: Past,
    ids: { projectId: string; sessionId: string },
  ) {
    this.#stoa = stoa;
    this.#as = as;
    this.#past = past;
    this.projectId = ids.projectId;
    this.#sessionId = ids.sessionId;
  }

  static async start(stoa: Stoa, as: (agent: string) => Stoa, past: Past): Promise<Work> {
    const { id } = await stoa.workspaces.create({ name: 'Harbour guide', project_path: '/srv/harbour' });
    const project = await stoa.projects.create(id, { name: 'Autumn edition', path: '/srv/harbour/autumn' });
    const session = await stoa.sessions.create(project.id, { status: 'active' });
    return new Work(stoa, as, past, { projectId: project.id, sessionId: session.id });
  }

  async #claimed(holder: string, command: string, attemptsMax = 3): Promise<{ id: string; fence: number }> {
    await this.#stoa.tasks.create(this.#sessionId, {
      command,
      labels: [holder.startsWith('scout') ? 'travel' : 'text'],
      max_attempts: attemptsMax,
      priority: 10,
    });
    return this.#claimNext(holder);
  }

  async #claimNext(holder: string): Promise<{ id: string; fence: number }> {
    const claim = await this.#as(holder).tasks.claim(this.projectId, { leaseSeconds });
    if (claim === null) throw new Error('No task was ready.');
    claim.abandon();
    await this.#past.hold(this.#as(holder), claim.task.id, claim.fence);
    return { id: claim.task.id, fence: claim.fence };
  }

  async claim(holder: string, command: string): Promise<string> {
    return (await this.#claimed(holder, command)).id;
  }

  async finish(holder: string, command: string, output: string, minutes: number): Promise<void> {
    const { id, fence } = await this.#claimed(holder, command);
    await this.#past.forward(minutes);
    this.#past.leave(id);
    await this.#as(holder).tasks.complete(id, { fence, output });
  }

  /** A task without attempts left. */
  async giveUp(holder: string): Promise<string> {
    const { id, fence } = await this.#claimed(holder, 'Draft the reply to the harbour office', 2);
    await this.#past.forward(1);
    await this.#as(holder).tasks.fail(id, {
      fence,
      error: 'The office has closed its mailbox.',
      retry: true,
    });
    const again = await this.#claimNext(holder);
    await this.#past.forward(1);
    this.#past.leave(id);
    await this.#as(holder).tasks.fail(id, {
      fence: again.fence,
      error: 'The office has closed its mailbox.',
    });
    return id;
  }

  /** A task that its first holder returned. */
  async handOver(from: string, to: string, command: string): Promise<void> {
    const { id, fence } = await this.#claimed(from, command);
    this.#past.leave(id);
    await this.#as(from).tasks.fail(id, { fence, error: 'I do not read Japanese.', retry: true });
    await this.#claimNext(to);
  }

  async ask(holder: string, command: string, question: string): Promise<string> {
    const { id, fence } = await this.#claimed(holder, command);
    await this.#as(holder).tasks.ask(id, { fence, question });
    return id;
  }

  /** What comes after the running tasks, and one task that is not needed. */
  async plan(runningId: string, questionId: string): Promise<{ finalId: string; waitingId: string }> {
    const create = (
      command: string,
      depends_on: string[] = [],
      labels: string[] = [],
    ): Promise<{ id: string }> => this.#stoa.tasks.create(this.#sessionId, { command, depends_on, labels });
    const merged = await create('Merge the notes of all scouts', [runningId]);
    const checked = await create('Find contradictions between the two surveys', [merged.id]);
    const final = await create('Write the daily report', [merged.id, checked.id, questionId], ['report']);
    await create('Send the report to the printer', [final.id], ['report']);
    await create('Verify the phone numbers of suppliers');
    await create('Sort the letters of readers', [], ['text']);
    const waiting = await create('Draw the map of the old harbour');
    return { finalId: final.id, waitingId: waiting.id };
  }

  async cancel(id: string): Promise<void> {
    await this.#stoa.tasks.cancel(id, { reason: 'The printer has a newer map.' });
  }
}
