/**
 * Short ids of tables. The program remembers which ids it has shown, so that every command accepts a short
 * one from a table. Ids are not secret; the file is only a convenience, and programs use --json.
 */
import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/** Above this size the older half is forgotten: some 4,000 ids. */
const rememberedBytesMax = 256 * 1024;

const uuid = /^([a-z]+_)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{4}([0-9a-f]{8})$/;
const hash = /^()[0-9a-f]{56}([0-9a-f]{8})$/;
const token = /^()[0-9a-f]{12}([0-9a-f]{8})$/;
const ulid = /^()[0-9A-HJKMNP-TV-Z]{18}([0-9A-HJKMNP-TV-Z]{8})$/;
const short = /^(?:[a-z]+_)?[0-9a-f]{8}$|^[0-9A-HJKMNP-TV-Z]{8}$/;

/** A message in the change feed: its room and its id. */
const message = /^([0-9a-f-]{36})\/([0-9A-Z]{26})$/;

/** The last eight digits, which are random; other texts are unchanged. */
export function shortId(id: string): string {
  const [, room, posted] = message.exec(id) ?? [];
  if (room !== undefined && posted !== undefined) return `${shortId(room)}/${shortId(posted)}`;
  const [, prefix = '', digits] = uuid.exec(id) ?? hash.exec(id) ?? token.exec(id) ?? ulid.exec(id) ?? [];
  return digits === undefined ? id : prefix + digits;
}

/** Where the program keeps notes for itself, which may be deleted at any time. */
export function stateDirectory(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const state = environment['XDG_STATE_HOME'] ?? '';
  return join(state === '' ? join(homedir(), '.local', 'state') : state, 'stoa');
}

export class ShownIds {
  readonly #path: string;

  constructor(environment: Readonly<Record<string, string | undefined>> = process.env) {
    this.#path = join(stateDirectory(environment), 'shown-ids');
  }

  /** False if they cannot be remembered; then whole ids are shown. */
  remember(ids: readonly string[]): boolean {
    try {
      mkdirSync(dirname(this.#path), { recursive: true });
      appendFileSync(this.#path, `${ids.join('\n')}\n`, { mode: 0o600 });
      if (statSync(this.#path).size > rememberedBytesMax) this.#forgetOlder();
      return true;
    } catch (error) {
      if (error instanceof Error && 'code' in error) return false;
      throw error;
    }
  }

  /** The id that was shown with this short id last; a text that is not one is unchanged. */
  whole(given: string): string {
    if (!short.test(given)) return given;
    return this.#shown().findLast((id) => shortId(id) === given) ?? given;
  }

  #shown(): string[] {
    try {
      return readFileSync(this.#path, 'utf8').split('\n');
    } catch (error) {
      if (error instanceof Error && 'code' in error) return [];
      throw error;
    }
  }

  #forgetOlder(): void {
    const shown = this.#shown();
    const next = `${this.#path}.${process.pid}`;
    writeFileSync(next, shown.slice(shown.length / 2).join('\n'), { mode: 0o600 });
    renameSync(next, this.#path);
  }
}
