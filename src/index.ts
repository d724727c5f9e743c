/** The library: what `openStoa` gives is all that server, CLI and MCP use. */
import type { Limits } from './limits.js';

export interface Stoa {
  readonly limits: Limits;
  close(): Promise<void>;
}
