/** Checks of agents, tasks and locks: owners of ids, leases and their timers, blockers, fencing numbers. */
import { heldStatuses } from '../../../workspaces/model.js';
import { type Check, findingsMax, lockTables } from './check.js';

const owned = `SELECT agent_id AS id, user_id FROM registry.agents
  UNION ALL SELECT session_id, user_id FROM registry.sessions
  UNION ALL SELECT 'identity:' || identity, user_id FROM registry.identity_links
  UNION ALL SELECT 'token:' || token_id, user_id FROM registry.tokens`;
const ownedTables = [
  'registry.owners',
  'registry.agents',
  'registry.sessions',
  'registry.identity_links',
  'registry.tokens',
];

const isHeld = `t.status IN (${heldStatuses.map((status) => `'${status}'`).join(', ')})`;
const blockersOf = `(SELECT count(*) FROM workspaces.task_dependencies d
  WHERE d.owner_id = t.owner_id AND d.task_id = t.id)`;
/** Tasks of removed sessions are deleted later, and their dependencies with them. */
const inSession = `EXISTS (SELECT FROM workspaces.sessions s
  WHERE s.owner_id = t.owner_id AND s.id = t.session_id AND NOT s.removed)`;

export const recordChecks: readonly Check[] = [
  {
    family: 'registry.owners',
    kind: 'missing',
    find: `SELECT found.id AS key, 'The id has no row that names its owner.' AS problem
      FROM (${owned}) found WHERE NOT EXISTS (SELECT FROM registry.owners o WHERE o.id = found.id)
      LIMIT ${findingsMax}`,
    repair: {
      about: 'Write the row again.',
      lock: lockTables(...ownedTables),
      statement: `INSERT INTO registry.owners (id, user_id) SELECT id, user_id FROM (${owned}) found
        ON CONFLICT DO NOTHING`,
    },
  },
  {
    family: 'registry.owners',
    kind: 'dangling',
    find: `SELECT o.id AS key, 'The row names the owner of an agent, session, identity or token that does not exist.'
        AS problem
      FROM registry.owners o WHERE NOT EXISTS (SELECT FROM (${owned}) found WHERE found.id = o.id)
      LIMIT ${findingsMax}`,
    repair: {
      about: 'Delete the row, so that the id can be used again.',
      lock: lockTables(...ownedTables),
      statement: `DELETE FROM registry.owners o
        WHERE NOT EXISTS (SELECT FROM (${owned}) found WHERE found.id = o.id)`,
    },
  },
  {
    family: 'registry.owners',
    kind: 'wrong',
    find: `SELECT o.id AS key, 'The row names another owner than the record has.' AS problem
      FROM registry.owners o JOIN (${owned}) found ON found.id = o.id
      WHERE found.user_id <> o.user_id LIMIT ${findingsMax}`,
    repair: {
      about: 'Take the owner from the record.',
      lock: lockTables(...ownedTables),
      statement: `UPDATE registry.owners o SET user_id = found.user_id FROM (${owned}) found
        WHERE found.id = o.id AND found.user_id <> o.user_id`,
    },
  },
  {
    family: 'registry.agents',
    kind: 'wrong',
    find: `SELECT agent_id AS key, 'The lease has a holder and no timer, so it would never end.' AS problem
      FROM registry.agents WHERE lease_holder IS NOT NULL AND lease_timer_at IS NULL LIMIT ${findingsMax}`,
    repair: {
      about: 'Set the timer to the end of the lease.',
      lock: lockTables('registry.agents'),
      statement: `UPDATE registry.agents SET lease_timer_at = coalesce(lease_expires_at, clock_timestamp())
        WHERE lease_holder IS NOT NULL AND lease_timer_at IS NULL`,
    },
  },
  {
    family: 'workspaces.tasks',
    kind: 'wrong',
    find: `SELECT t.id AS key, 'The task counts ' || t.blockers || ' unfinished dependencies and has '
        || ${blockersOf} || '.' AS problem
      FROM workspaces.tasks t WHERE t.status = 'pending' AND ${inSession} AND t.blockers <> ${blockersOf}
      LIMIT ${findingsMax}`,
    repair: {
      about: 'Count the dependencies again.',
      lock: lockTables('workspaces.tasks', 'workspaces.task_dependencies', 'workspaces.sessions'),
      statement: `UPDATE workspaces.tasks t SET blockers = ${blockersOf}
        WHERE t.status = 'pending' AND ${inSession} AND t.blockers <> ${blockersOf}`,
    },
  },
  {
    family: 'workspaces.leases',
    kind: 'wrong',
    find: `SELECT t.id AS key, 'The task is ' || t.status || ', held by ' || coalesce(t.claimed_by, 'nobody')
        || ', and its lease is held by ' || coalesce(l.holder, 'nobody') || '.' AS problem
      FROM workspaces.tasks t LEFT JOIN workspaces.leases l ON l.owner_id = t.owner_id AND l.task_id = t.id
      WHERE ${inSession} AND (CASE WHEN ${isHeld} THEN t.claimed_by END) IS DISTINCT FROM l.holder
      LIMIT ${findingsMax}`,
  },
  {
    family: 'locks.fences',
    kind: 'wrong',
    find: `SELECT l.user_id || ' ' || l.name AS key, 'The lock has the fencing number ' || l.fence
        || ', and the last one given out is ' || f.fence || '.' AS problem
      FROM locks.locks l JOIN locks.fences f ON f.user_id = l.user_id WHERE l.fence > f.fence
      LIMIT ${findingsMax}`,
    repair: {
      about: 'Continue after the highest number of the locks.',
      lock: lockTables('locks.locks', 'locks.fences'),
      statement: `UPDATE locks.fences f SET fence = GREATEST(f.fence,
        (SELECT coalesce(max(l.fence), 0) FROM locks.locks l WHERE l.user_id = f.user_id))`,
    },
  },
  {
    family: 'messaging.room_facts',
    kind: 'wrong',
    find: `SELECT r.id::text AS key, 'The room of a user has another name in its facts.' AS problem
      FROM rooms r JOIN messaging.room_facts f ON f.room_id = r.id
      WHERE f.owner IS NOT NULL AND f.name IS DISTINCT FROM r.name LIMIT ${findingsMax}`,
    repair: {
      about: 'Take the name from the room.',
      lock: lockTables('rooms', 'messaging.room_facts'),
      statement: `UPDATE messaging.room_facts f SET name = r.name FROM rooms r
        WHERE r.id = f.room_id AND f.owner IS NOT NULL AND f.name IS DISTINCT FROM r.name`,
    },
  },
];
