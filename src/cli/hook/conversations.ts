/**
 * Which agent a conversation of an agent program is. Its hooks and its MCP server are different processes,
 * and only the hooks know the id of the conversation: they note the name that the MCP server answers with.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isMissing } from '../../core/files.js';
import { registryLimits } from '../../core/settings/limits/registry.js';
import { stateDirectory } from '../output/short-ids.js';

/** As long as the registry remembers an agent that is lost. */
const keptMs = registryLimits.agentLostDays.default * 24 * 60 * 60 * 1000;

const noteSchema = z.object({
  agent: z.string().min(1),
  read_until: z.iso.datetime(),
  told_until: z.iso.datetime().optional(),
});
/** The agent, the time of the newest direct message that a hook has shown, and that of the newest lock. */
export type Conversation = z.output<typeof noteSchema>;

export class Conversations {
  readonly #directory = join(stateDirectory(), 'conversations');

  /** Undefined for a conversation that has not called Stoa yet. */
  async find(id: string): Promise<Conversation | undefined> {
    try {
      return noteSchema.parse(JSON.parse(await readFile(this.#file(id), 'utf8')));
    } catch {
      // A missing or damaged note is made again by the next call.
      return undefined;
    }
  }

  async note(id: string, conversation: Conversation): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await writeFile(this.#file(id), JSON.stringify(conversation), { mode: 0o600 });
    await this.#forgetOld();
  }

  async #forgetOld(): Promise<void> {
    const oldest = Date.now() - keptMs;
    for (const name of await readdir(this.#directory)) {
      const file = join(this.#directory, name);
      if ((await changedMs(file)) < oldest) await rm(file, { force: true });
    }
  }

  #file(id: string): string {
    return join(this.#directory, `${createHash('sha256').update(id).digest('hex').slice(0, 32)}.json`);
  }
}

/** Infinity for a file that another hook has removed meanwhile. */
async function changedMs(file: string): Promise<number> {
  try {
    return (await stat(file)).mtimeMs;
  } catch (error) {
    if (isMissing(error)) return Infinity;
    throw error;
  }
}
