import { type Row, statuses } from './row.js';

const accept = 'application/json, text/event-stream';
const everyone = (status: number) => statuses(status, status, status, status, status, 401);

export const mcpRows: Record<string, Row> = {
  // A token that only reads may list the tools; those that write refuse it one by one.
  'POST /mcp': {
    request: () => ({
      path: '/mcp',
      headers: { accept },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    }),
    status: everyone(200),
  },
  'GET /mcp': { request: () => ({ path: '/mcp', headers: { accept } }), status: everyone(405) },
  'DELETE /mcp': {
    request: () => ({ path: '/mcp', headers: { 'mcp-session-id': 'none' } }),
    status: everyone(404),
  },
};
