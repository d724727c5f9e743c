/** `stoa agents …`: the registry from the shell. */
import type { AgentAnswer, LeaseAnswer, SessionAnswer } from '../../registry/schemas.js';
import {
  type Action,
  type Options,
  listOption,
  numberOption,
  pairsOption,
  present,
  textOption,
} from '../definition.js';
import type { Column } from '../output.js';

interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

const agentColumns: readonly Column<AgentAnswer>[] = [
  ['ID', (agent) => agent.agent_id],
  ['NAME', (agent) => agent.name],
  ['STATUS', (agent) => agent.status],
  ['PRESENCE', (agent) => agent.presence],
  ['SESSIONS', (agent) => agent.active_sessions],
  ['USER', (agent) => agent.user],
  ['UPDATED', (agent) => agent.updated_at],
];

const sessionColumns: readonly Column<SessionAnswer>[] = [
  ['ID', (session) => session.session_id],
  ['STATUS', (session) => session.status],
  ['CREATED', (session) => session.created_at],
  ['CLOSED_AT', (session) => session.closed_at],
];

export const ls: Action = async ({ connect, output }, _args, options) => {
  const connection = await connect();
  const query = {
    ...pageOf(options),
    status: textOption(options, 'status'),
    name: textOption(options, 'name'),
    label: textOption(options, 'label'),
  };
  output.list(
    await connection.call<Page<AgentAnswer>>('GET', '/v1/agents', { query }),
    agentColumns,
    'No agents. Make one with: stoa agents create NAME',
  );
};

export const get: Action = async ({ connect, output }, [id]) => {
  output.value(await (await connect()).call<AgentAnswer>('GET', agentPath(id)));
};

export const create: Action = async ({ connect, output }, [name], options) => {
  const key = textOption(options, 'idempotencyKey');
  const body = present({ name, spec: specOf(options), labels: pairsOption(options, 'label') });
  const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key };
  output.value(await (await connect('created')).call<AgentAnswer>('POST', '/v1/agents', { body, headers }));
};

export const update: Action = async ({ connect, output }, [id], options) => {
  const body = present({
    name: textOption(options, 'name'),
    status: textOption(options, 'status'),
    spec: specOf(options),
    labels: listOption(options, 'label') === undefined ? undefined : pairsOption(options, 'label'),
    error_message: textOption(options, 'errorMessage'),
  });
  output.value(
    await (
      await connect()
    ).call<AgentAnswer>('PATCH', agentPath(id), { body, headers: versionHeader(options) }),
  );
};

export const rm: Action = async ({ connect, output }, [id], options) => {
  await (await connect()).call('DELETE', agentPath(id), { headers: versionHeader(options) });
  output.done({ deleted: id }, `Deleted ${id}.`);
};

/** The verbs of the lifecycle: the table of states decides whether they fit. */
function lifecycle(verb: 'start' | 'stop' | 'restart' | 'hibernate' | 'wake'): Action {
  return async ({ connect, output }, [id]) => {
    output.value(await (await connect()).call<AgentAnswer>('POST', `${agentPath(id)}/${verb}`));
  };
}

export const start = lifecycle('start');
export const stop = lifecycle('stop');
export const restart = lifecycle('restart');
export const hibernate = lifecycle('hibernate');
export const wake = lifecycle('wake');

export const heartbeat: Action = async ({ connect, output }, [id], options) => {
  const body = present({ holder: textOption(options, 'holder') });
  const { lease } = await (
    await connect()
  ).call<{ lease: LeaseAnswer }>('POST', `${agentPath(id)}/heartbeat`, { body });
  output.value(output.json ? { lease } : lease);
};

export const listSessions: Action = async ({ connect, output }, [id], options) => {
  const query = { ...pageOf(options), status: textOption(options, 'status') };
  output.list(
    await (await connect()).call<Page<SessionAnswer>>('GET', `${agentPath(id)}/sessions`, { query }),
    sessionColumns,
    'No sessions.',
  );
};

export const openSession: Action = async ({ connect, output }, [id], options) => {
  const body = present({ session_id: textOption(options, 'sessionId') });
  output.value(await (await connect()).call<SessionAnswer>('POST', `${agentPath(id)}/sessions`, { body }));
};

export const getSession: Action = async ({ connect, output }, [id, session]) => {
  output.value(await (await connect()).call<SessionAnswer>('GET', sessionPath(id, session)));
};

export const closeSession: Action = async ({ connect, output }, [id, session]) => {
  const closed = await (await connect()).call<SessionAnswer | undefined>('DELETE', sessionPath(id, session));
  output.value(closed ?? { closed: session });
};

function agentPath(id = ''): string {
  return `/v1/agents/${encodeURIComponent(id)}`;
}

function sessionPath(id: string | undefined, session = ''): string {
  return `${agentPath(id)}/sessions/${encodeURIComponent(session)}`;
}

function pageOf(options: Options): { limit: number | undefined; cursor: string | undefined } {
  return { limit: numberOption(options, 'limit'), cursor: textOption(options, 'cursor') };
}

function specOf(options: Options): Record<string, unknown> | undefined {
  const spec = present({
    cpu_millicores: numberOption(options, 'cpu'),
    memory_mb: numberOption(options, 'memory'),
    runtime_version: textOption(options, 'runtime'),
  });
  return Object.keys(spec).length === 0 ? undefined : spec;
}

function versionHeader(options: Options): Record<string, string> {
  const version = numberOption(options, 'ifVersion');
  return version === undefined ? {} : { 'if-match': `"${version}"` };
}
