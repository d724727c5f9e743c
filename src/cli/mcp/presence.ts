/** Signs of life of a client: the server counts its agent as present while the client runs. */
import { nameCandidates, unusedName } from '../../mcp/sessions/names.js';
import { Periodic } from '../../core/waiting/periodic.js';
import { type Message } from './messages.js';
import type { ServerLink } from './server-link.js';

const signMs = 60_000;
const clientKey = 'io.modelcontextprotocol/clientInfo';
/** Names that are tried before the bridge takes one that nobody has. */
const namesMax = 8;

export class Presence {
  readonly #link: ServerLink;
  readonly #signs: Periodic;
  #naming: Promise<void> | undefined;

  constructor(link: ServerLink, say: (sentence: string) => void) {
    this.#link = link;
    this.#signs = new Periodic({
      everyMs: signMs,
      run: async () => {
        await this.#link.signOfLife();
      },
      onError: (error) => say(`The sign of life did not reach the server: ${String(error)}.`),
    });
  }

  start(): void {
    this.#signs.start();
  }

  close(): Promise<void> {
    return this.#signs.close();
  }

  /** A client of 2026 opens no session in which the server could name it, so its bridge does. */
  async name(message: Message): Promise<void> {
    const program = programOf(message);
    if (this.#link.agent !== undefined || program === undefined) return;
    this.#naming ??= this.#choose(program).finally(() => (this.#naming = undefined));
    await this.#naming;
  }

  async #choose(program: string): Promise<void> {
    for (const name of nameCandidates(program).slice(0, namesMax)) {
      const status = await this.#link.makeAgent(name);
      if (status === 201) this.#link.agent = name;
      // Another client has the name, or had it.
      if (status !== 409) break;
    }
    // The token may only read, or the user has as many agents as a user may have.
    this.#link.agent ??= unusedName(program);
  }
}

/** The name of the program in a message of 2026. */
function programOf(message: Message): string | undefined {
  if (Array.isArray(message)) return undefined;
  const { _meta: meta } = (message.params ?? {}) as { _meta?: Record<string, unknown> };
  const client = meta?.[clientKey];
  const name = typeof client === 'object' && client !== null && 'name' in client ? client.name : undefined;
  return typeof name === 'string' ? name : undefined;
}
