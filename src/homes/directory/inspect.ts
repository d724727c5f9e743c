/** The content of a row of any family, made readable by its domain. */
import { dataRows } from './datastore/inspect.js';
import { findRows } from './find/inspect.js';
import { identityRows } from './identity/inspect.js';
import { type RowDecoders, kernelRows } from './kernel/inspect/kernel-rows.js';
import { lockRows } from './locks/inspect.js';
import { messagingRows } from './messaging/inspect.js';
import { families as messaging } from './messaging/rows.js';
import { registryRows } from './registry/inspect.js';
import { workspacesRows } from './workspaces/inspect.js';

const decoders: RowDecoders = {
  ...kernelRows,
  ...identityRows,
  ...dataRows,
  ...registryRows,
  ...workspacesRows,
  ...findRows,
  ...lockRows,
  ...messagingRows,
};

/** Not even the operator sees the hash of the key of a room. */
export function hidesValues(family: string): boolean {
  return family === messaging.roomKeys;
}

/** Undefined for a family that is not shown, or is unknown. Throws for a row that cannot be read. */
export function decodeEntry(family: string, key: Buffer, value: Buffer): unknown {
  return decoders[family]?.(key, value);
}
