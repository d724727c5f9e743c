/** Commands of agents, agent sessions, users and tokens. */
import { agentStates, sessionStatuses } from '../../registry/model.js';
import { type CommandHints, type FlagHint, inStatus, pageFlags } from '../command.js';
import type { agents, tokens, users } from './operations.js';

const specFlags = [
  ['spec.cpu_millicores', '--cpu <millicores>', 'CPU in thousandths of a core', 'number'],
  ['spec.memory_mb', '--memory <mb>', 'Memory in MB', 'number'],
  ['spec.runtime_version', '--runtime <version>', 'Version of the runtime'],
  ['labels', '--label <name=value>', 'A label; can be repeated', 'pairs'],
] as const satisfies readonly FlagHint[];

export const agentCommands = {
  list: {
    usage: 'ls',
    about: 'List agents; without --user, those of all users',
    flags: [
      inStatus(agentStates),
      ['name', '--name <name>', 'Only with exactly this name'],
      ['label', '--label <label>', 'Only with this label: name or name=value'],
      ...pageFlags,
    ],
    examples: ['stoa agents ls', 'stoa agents ls --user ada --label team=blue --json'],
    table: {
      columns: {
        ID: 'agent_id',
        NAME: 'name',
        STATUS: 'status',
        PRESENCE: 'presence',
        SESSIONS: 'active_sessions',
        USER: 'user',
        UPDATED: 'updated_at',
      },
      empty: 'No agents. An agent is made by its first write, or with: stoa agents create NAME',
    },
  },
  get: { usage: 'get <agent_id>', about: 'Show one agent', examples: ['stoa agents get scout --json'] },
  create: {
    usage: 'create <name>',
    flags: specFlags,
    makesStore: true,
    examples: [
      'stoa agents create scout --user ada',
      'stoa agents create scout --cpu 1000 --memory 2048 --label team=blue',
    ],
  },
  update: {
    usage: 'update <agent_id>',
    about: 'Change an agent; labels are replaced as a whole',
    flags: [
      ['name', '--name <name>', 'A new name'],
      [
        'status',
        '--status <status>',
        `A new status, if the current one allows it: ${agentStates.join(', ')}`,
      ],
      ...specFlags,
      ['error_message', '--error-message <text>', 'Why the agent is in error'],
    ],
    examples: [
      'stoa agents update scout --status running',
      'stoa agents update scout --name scout-2 --if-version 3',
    ],
  },
  delete: {
    usage: 'rm <agent_id>',
    examples: ['stoa agents rm scout'],
    done: ['deleted', 'agent_id', 'Deleted {agent_id}.'],
  },
  forget: {
    usage: 'forget <agent_id>',
    about: 'Forget an agent that is not present, whatever its status',
    examples: ['stoa agents forget scout'],
    done: ['forgotten', 'agent_id', 'Forgot {agent_id}.'],
  },
  start: {
    usage: 'start <agent_id>',
    about: 'Request that a stopped or failed agent runs',
    examples: ['stoa agents start scout'],
  },
  stop: {
    usage: 'stop <agent_id>',
    about: 'Request that an agent stops',
    examples: ['stoa agents stop scout'],
  },
  restart: {
    usage: 'restart <agent_id>',
    about: 'Request that an agent stops and runs again',
    examples: ['stoa agents restart scout'],
  },
  hibernate: {
    usage: 'hibernate <agent_id>',
    about: 'Hibernate an agent',
    examples: ['stoa agents hibernate scout'],
  },
  wake: {
    usage: 'wake <agent_id>',
    examples: ['stoa agents wake scout'],
  },
  heartbeat: {
    usage: 'heartbeat <agent_id>',
    about: 'Keep an agent alive: take or renew its lease',
    flags: [
      ['holder', '--holder <name>', 'The holder of the lease (default: --agent, or else the agent itself)'],
    ],
    examples: ['stoa agents heartbeat scout --holder host-1 --json'],
    shows: 'lease',
  },
  listIdentities: {
    usage: 'identities <agent_id>',
    flags: pageFlags,
    examples: ['stoa agents identities scout'],
    table: {
      columns: { IDENTITY: 'identity', WRITE: 'write', NAMESPACES: 'namespaces', LINKED: 'linked_at' },
      empty: 'No messaging identity is linked to this agent.',
    },
  },
} satisfies CommandHints<typeof agents>;

export const agentSessionCommands = {
  listSessions: {
    usage: 'ls <agent_id>',
    about: 'List the sessions of an agent',
    flags: [inStatus(sessionStatuses), ...pageFlags],
    examples: ['stoa agents sessions ls scout'],
    table: {
      columns: { ID: 'session_id', STATUS: 'status', CREATED: 'created_at', CLOSED_AT: 'closed_at' },
      empty: 'No sessions.',
    },
  },
  openSession: {
    usage: 'open <agent_id>',
    about: 'Open a session',
    flags: [['session_id', '--session-id <uuid>', 'The id of the session (default: a new id)']],
    examples: ['stoa agents sessions open scout'],
  },
  getSession: {
    usage: 'get <agent_id> <session_id>',
    about: 'Show a session',
    examples: ['stoa agents sessions get scout SESSION'],
  },
  closeSession: {
    usage: 'close <agent_id> <session_id>',
    examples: ['stoa agents sessions close scout SESSION'],
  },
} satisfies CommandHints<typeof agents>;

export const userCommands = {
  list: {
    usage: 'ls',
    about: 'List users',
    flags: pageFlags,
    examples: ['stoa users ls --json'],
    table: {
      columns: {
        USER: 'user',
        AGENTS: '{agents}/{agents_max}',
        EMAIL: 'email',
        LAST_SEEN: 'last_seen_at',
        ID: 'user_id',
      },
      empty: 'No users yet. A user is created by its first write.',
    },
  },
  get: { usage: 'get <user>', about: 'Show one user', examples: ['stoa users get ada'] },
  set: {
    usage: 'set <user>',
    about: 'Set the e-mail address or the quota of a user',
    flags: [
      ['email', '--email <address>', 'E-mail address'],
      [
        'agents_max',
        '--agents-max <n>',
        'The maximum number of agents of the user; "none" means the general limit',
        'numberOrNone',
      ],
    ],
    needsFlag: true,
    makesStore: true,
    examples: ['stoa users set ada --email ada@example.org', 'stoa users set ada --agents-max none'],
  },
} satisfies CommandHints<typeof users>;

export const tokenCommands = {
  create: {
    usage: 'create',
    about: 'Create a token for the user in --user',
    flags: [
      ['name', '--name <name>', 'A name that says what the token is for'],
      [
        'expires_in',
        '--expires-in <duration>',
        'Time until the token expires: 90s, 15m, 12h, 30d',
        'duration',
      ],
      ['scopes.write', '--read-only', 'The token can only read', { is: false }],
      [
        'scopes.namespaces',
        '--namespace <namespace>',
        'A namespace that the token can access, instead of all; can be repeated',
        'many',
      ],
    ],
    needsUser: true,
    makesStore: true,
    note: 'The token is shown only once. The server does not store it.',
    examples: [
      'stoa token create --user ada --name laptop',
      'stoa token create --user ada --read-only --expires-in 30d --json',
    ],
  },
  list: {
    usage: 'ls',
    flags: pageFlags,
    needsUser: true,
    examples: ['stoa token ls --user ada'],
    table: {
      columns: {
        ID: 'token_id',
        NAME: 'name',
        WRITE: 'scopes.write',
        LIMITED_TO: 'scopes.namespaces',
        CREATED: 'created_at',
        EXPIRES: 'expires_at',
        LAST_USED_AT: 'last_used_at',
      },
      empty: 'No tokens.',
    },
  },
  revoke: {
    usage: 'revoke <token>',
    about: 'Revoke a token by its id, or "all" tokens of the user',
    needsUser: true,
    examples: ['stoa token revoke TOKEN_ID --user ada', 'stoa token revoke all --user ada'],
  },
} satisfies CommandHints<typeof tokens>;
