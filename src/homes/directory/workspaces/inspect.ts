/** The rows of workspaces for `stoa inspect`: keys are text, values JSON or text. */
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
import { workspacesFamilies } from './keys.js';

export const workspacesRows: RowDecoders = Object.fromEntries(
  workspacesFamilies.map((family) => [family, readableRow]),
);

function readableRow(key: Buffer, value: Buffer): { key: string; value: unknown } {
  const text = value.toString();
  return { key: key.toString(), value: text.startsWith('{') ? (JSON.parse(text) as unknown) : text };
}
