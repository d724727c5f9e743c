/** The rows of workspaces for `stoa inspect`: keys are text, values JSON or text. */
import { workspacesFamilies } from './keys.js';

/** Undefined for a family that is not of workspaces. */
export function decodeWorkspacesEntry(
  family: string,
  key: Buffer,
  value: Buffer,
): { key: string; value: unknown } | undefined {
  if (!workspacesFamilies.includes(family)) return undefined;
  const text = value.toString();
  return { key: key.toString(), value: text.startsWith('{') ? (JSON.parse(text) as unknown) : text };
}
