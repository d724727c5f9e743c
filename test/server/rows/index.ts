/** The table route × principal. Every route of the server needs a row here. */
import { dataRows } from './datastore.js';
import { mcpRows } from './mcp.js';
import { roomRows } from './rooms.js';
import { messagingRows } from './messaging.js';
import { platformRows } from './platform.js';
import { registryRows } from './registry.js';
import type { Row } from './row.js';
import { workspaceRows } from './workspaces.js';

export const routeTable: Readonly<Record<string, Row>> = {
  ...dataRows,
  ...mcpRows,
  ...messagingRows,
  ...platformRows,
  ...registryRows,
  ...roomRows,
  ...workspaceRows,
};
