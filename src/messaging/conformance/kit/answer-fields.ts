/** The fields of JSON answers that tests read. */

/** A list whose length each test checks itself. */
type Listed<Item> = [Item, Item, Item, Item, Item, Item, Item, Item, ...Item[]];

/**
 * The fields of all answers, with their types. A test asserts which of them an answer has. A name that is
 * missing here is a mistake, or a field to add.
 */
export interface AnswerFields {
  // Lists
  items: Listed<AnswerFields>;
  messages: Listed<AnswerFields>;
  results: Listed<AnswerFields>;
  tasks: Listed<AnswerFields>;
  agents: Listed<AnswerFields>;
  channels: Listed<AnswerFields>;
  top_channels: Listed<AnswerFields>;
  recent_messages: Listed<AnswerFields>;
  errors: Listed<AnswerFields>;
  findings: Listed<AnswerFields>;
  keys: Listed<AnswerFields>;
  missing: Listed<string>;
  rooms: Listed<AnswerFields>;
  sessions: Listed<AnswerFields>;
  changes: Listed<AnswerFields>;
  /** Null at the end. */
  next_cursor: string;
  has_more: boolean;
  truncated: boolean;
  total: number;
  count: number;
  deleted: number;
  found: number;
  repaired: number;
  // Names and ids
  id: string;
  agent_id: string;
  session_id: string;
  workspace_id: string;
  project_id: string;
  room_id: string;
  token_id: string;
  user: string;
  user_id: string;
  name: string;
  namespace: string;
  key: string;
  public_key: string;
  token: string;
  from: string;
  from_id: string;
  to: string;
  kind: string;
  identity: string;
  family: string;
  createdByAgent: string;
  domain: string;
  // Messages and stored values
  body: string;
  command: string;
  output: string;
  value: unknown;
  metadata: Record<string, unknown>;
  labels: Record<string, string>;
  result: AnswerFields;
  decoded: unknown;
  // State
  status: string;
  version: number;
  seq: number;
  fence: number;
  priority: number;
  attempts: number;
  claimed_by: string;
  holder: string;
  ok: boolean;
  acknowledged: boolean;
  estimated: boolean;
  proven: boolean;
  is_private: boolean;
  room_created: boolean;
  owner: string;
  // Times
  ts: number;
  created_at: string;
  updated_at: string;
  expires_at: string;
  ip: string;
  lease_expires_at: string;
  last_used_at: string;
  last_seen_at: string;
  last_activity: string;
  // Nested
  task: AnswerFields;
  lease: AnswerFields;
  room: AnswerFields;
  root: AnswerFields;
  last: AnswerFields;
  checks: Record<string, AnswerFields>;
  // Signatures
  sig: string;
  proof: { public_key: string; signed_text: string; request: string };
  // Tools of MCP
  isError: boolean;
  structuredContent: AnswerFields;
  content: Listed<{ type: string; text: string }>;
  // Totals
  message_count: number;
  entries: number;
  size_bytes: number;
  sizeBytes: number;
  total_agents: number;
  total_channels: number;
  total_messages: number;
  // Refusals
  code: string;
  title: string;
  reason: string;
  detail: string;
  fix: string;
  field: string;
  message: string;
  details: Record<string, unknown>;
  error: AnswerFields;
}
