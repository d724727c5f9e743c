/** Examples of agents, agent sessions, users, tokens and links. */
import type { ExamplesOf } from '../example.js';

const agentId = '3608e4bd0e693177369e17f48cdf750eb962b86aaac1bf6b50c7a46d52f7d94b';
const userId = 'fdee430d40bd57deeac186cd9790033d0f06f909a8806e7ce6e717ab7c7d5029';
const identity = '8f883376-3037-4f0a-aaa9-93b2cb8e3e92';
const createdAt = '2026-01-31T09:00:00.000Z';
const one = { agent_id: agentId } as const;

const lease = { holder: 'scout', fence: 7, expires_at: '2026-01-31T09:01:00.000Z' };

const agent = {
  agent_id: agentId,
  user_id: userId,
  user: 'ada',
  name: 'scout',
  status: 'running',
  spec: { cpu_millicores: 500, memory_mb: 512, runtime_version: 'latest' },
  labels: { team: 'blue' },
  error_message: null,
  created_at: createdAt,
  updated_at: createdAt,
  last_heartbeat_at: createdAt,
  version: 3,
  presence: 'live',
  lease,
  active_sessions: 1,
} as const;

const session = {
  session_id: '7e73e014-d4ee-43fa-b2d6-4ccf8e87ad85',
  agent_id: agentId,
  user_id: userId,
  status: 'active',
  created_at: createdAt,
  closed_at: null,
} as const;
const oneSession = { agent_id: agentId, session_id: session.session_id } as const;

const link = {
  identity,
  user: 'ada',
  agent_id: agentId,
  agent_name: 'scout',
  write: true,
  namespaces: ['notes'],
  linked_at: '2026-01-31T09:00:00.000Z',
};

const user = {
  user_id: userId,
  user: 'ada',
  email: 'ada@example.org',
  created_at: createdAt,
  last_seen_at: createdAt,
  agents: 2,
  agents_max: 100,
};

const token = {
  token_id: '0f8fad5bd9cb469fa165',
  user: 'ada',
  name: 'laptop',
  scopes: { write: true, namespaces: null },
  created_at: createdAt,
  expires_at: null,
  last_used_at: null,
};

export const agentExamples: ExamplesOf<'agents'> = {
  list: {
    request: { status: 'running', label: 'team=blue' },
    answer: { items: [agent], next_cursor: null },
  },
  create: {
    request: { name: 'scout', labels: { team: 'blue' } },
    answer: {
      ...agent,
      status: 'provisioning',
      last_heartbeat_at: null,
      version: 1,
      presence: 'none',
      lease: null,
      active_sessions: 0,
    },
  },
  get: { request: one, answer: agent },
  update: { request: { ...one, labels: { team: 'green' } }, answer: { ...agent, labels: { team: 'green' } } },
  delete: { request: one },
  forget: { request: { agent_id: 'scout' } },
  start: { request: one, answer: agent },
  stop: { request: one, answer: { ...agent, status: 'stopped' } },
  restart: { request: one, answer: { ...agent, status: 'provisioning' } },
  hibernate: { request: one, answer: { ...agent, status: 'hibernating', active_sessions: 0 } },
  wake: { request: one, answer: agent },
  heartbeat: { request: { ...one, holder: 'scout' }, answer: { lease } },
  listSessions: {
    request: { ...one, status: 'active' },
    answer: { items: [session], next_cursor: null },
  },
  openSession: { request: one, answer: session },
  getSession: { request: oneSession, answer: session },
  closeSession: {
    request: oneSession,
    answer: { ...session, status: 'closed', closed_at: '2026-01-31T09:01:00.000Z' },
  },
  listIdentities: { request: one, answer: { items: [link], next_cursor: null } },
};

export const userExamples: ExamplesOf<'users'> = {
  list: { request: {}, answer: { items: [user], next_cursor: null } },
  get: { request: { user: 'ada' }, answer: user },
  set: { request: { user: 'ada', email: 'ada@example.org', agents_max: 100 }, answer: user },
};

export const tokenExamples: ExamplesOf<'tokens'> = {
  list: { request: { user: 'ada' }, answer: { items: [token], next_cursor: null } },
  create: {
    request: { user: 'ada', name: 'laptop', expires_in: 2_592_000 },
    answer: { ...token, expires_at: '2026-03-02T09:00:00.000Z', token: 'the secret, shown only once' },
  },
  revoke: { request: { user: 'ada', token: token.token_id }, answer: { revoked: [token.token_id] } },
};

export const linkExamples: ExamplesOf<'links'> = {
  set: {
    request: {
      identity,
      agent_id: agentId,
      namespaces: ['notes'],
      consent: { signed_at: createdAt, signature: 'c2lnbmF0dXJlIG9mIHRoZSBpZGVudGl0eQ==' },
    },
    answer: link,
    client: "await stoa.agents.link('scout', await identity.consent('scout'), { namespaces: ['notes'] })",
  },
  delete: { request: { identity }, client: `await stoa.agents.unlink('${identity}')` },
};
