/** Checks of counters against what they count, and of vectors without their document. */
import { type Check, findingsMax, lockTables } from './check.js';

const isOpenTask = `status IN ('pending', 'running', 'input_required')`;

/** Open tasks of sessions that exist. Tasks of a removed session are deleted later, and count no more. */
const openBySession = `SELECT owner_id, session_id, count(*) AS open FROM workspaces.tasks
  WHERE ${isOpenTask} GROUP BY owner_id, session_id`;
const openByProject = `SELECT t.owner_id, t.project_id, count(*) AS open FROM workspaces.tasks t
  JOIN workspaces.sessions s ON s.owner_id = t.owner_id AND s.id = t.session_id AND NOT s.removed
  WHERE t.${isOpenTask} GROUP BY t.owner_id, t.project_id`;

const countedDocuments = `SELECT "userId", namespace, count(*) AS documents, sum("sizeBytes") AS bytes
  FROM agent_data_store GROUP BY "userId", namespace`;
const documentCounts = `SELECT "userId", namespace, sum(documents) AS documents, sum("sizeBytes") AS bytes
  FROM agent_data_store_counts GROUP BY "userId", namespace`;

/** Waiting documents are looked at by the server that embeds them. */
const orphanVectors = `find.vectors v WHERE NOT EXISTS (SELECT FROM agent_data_store d
    WHERE d."userId" = v.owner AND d.namespace = v.collection AND d.key = v.id)
  AND NOT EXISTS (SELECT FROM find.waiting w
    WHERE w.owner = v.owner AND w.collection = v.collection AND w.id IN (v.id, ''))`;

export const counterChecks: readonly Check[] = [
  {
    family: 'find.vectors',
    kind: 'dangling',
    find: `SELECT v.owner || ' ' || v.collection || ' ' || v.id AS key,
        'A vector belongs to a document that does not exist.' AS problem FROM ${orphanVectors} LIMIT ${findingsMax}`,
    repair: {
      about: 'Delete the vector.',
      lock: lockTables('agent_data_store', 'find.vectors', 'find.waiting'),
      statement: `DELETE FROM ${orphanVectors}`,
    },
  },
  {
    family: 'agent_data_store_counts',
    kind: 'wrong',
    find: `SELECT coalesce(d."userId", c."userId") || ' ' || coalesce(d.namespace, c.namespace) AS key,
        'The namespace counts ' || coalesce(c.documents, 0) || ' documents and has '
          || coalesce(d.documents, 0) || '.' AS problem
      FROM (${countedDocuments}) d FULL JOIN (${documentCounts}) c
        ON c."userId" = d."userId" AND c.namespace = d.namespace
      WHERE (coalesce(c.documents, 0), coalesce(c.bytes, 0)) <> (coalesce(d.documents, 0), coalesce(d.bytes, 0))
      LIMIT ${findingsMax}`,
    repair: {
      about: 'Count the documents again.',
      lock: lockTables('agent_data_store', 'agent_data_store_counts'),
      statement: `WITH gone AS (DELETE FROM agent_data_store_counts)
        INSERT INTO agent_data_store_counts
          SELECT "userId", namespace, count(*), sum("sizeBytes"), max("updatedAt") FROM agent_data_store
            GROUP BY "userId", namespace`,
    },
  },
  {
    family: 'workspaces.sessions',
    kind: 'wrong',
    find: `SELECT s.id AS key, 'The session counts ' || s.open_tasks || ' open tasks and has '
          || coalesce(t.open, 0) || '.' AS problem
      FROM workspaces.sessions s LEFT JOIN (${openBySession}) t
        ON t.owner_id = s.owner_id AND t.session_id = s.id
      WHERE NOT s.removed AND s.open_tasks <> coalesce(t.open, 0) LIMIT ${findingsMax}`,
    repair: {
      about: 'Count the open tasks again.',
      lock: lockTables('workspaces.tasks', 'workspaces.sessions'),
      statement: `UPDATE workspaces.sessions s SET open_tasks = (SELECT count(*) FROM workspaces.tasks t
          WHERE t.owner_id = s.owner_id AND t.session_id = s.id AND t.${isOpenTask})
        WHERE NOT s.removed`,
    },
  },
  {
    family: 'workspaces.projects',
    kind: 'wrong',
    find: `SELECT p.id AS key, 'The project counts ' || p.open_tasks || ' open tasks and has '
          || coalesce(t.open, 0) || '.' AS problem
      FROM workspaces.projects p LEFT JOIN (${openByProject}) t
        ON t.owner_id = p.owner_id AND t.project_id = p.id
      WHERE NOT p.removed AND p.open_tasks <> coalesce(t.open, 0) LIMIT ${findingsMax}`,
    repair: {
      about: 'Count the open tasks again.',
      lock: lockTables('workspaces.tasks', 'workspaces.sessions', 'workspaces.projects'),
      statement: `UPDATE workspaces.projects p SET open_tasks = coalesce((SELECT t.open FROM (${openByProject}) t
          WHERE t.owner_id = p.owner_id AND t.project_id = p.id), 0)
        WHERE NOT p.removed`,
    },
  },
  {
    family: 'registry.users',
    kind: 'wrong',
    find: `SELECT u.name AS key, 'The user counts ' || u.agents || ' agents and has ' || count(a.agent_id)
          || '.' AS problem
      FROM registry.users u LEFT JOIN registry.agents a ON a.user_id = u.user_id
      GROUP BY u.user_id, u.name, u.agents HAVING u.agents <> count(a.agent_id) LIMIT ${findingsMax}`,
    repair: {
      about: 'Count the agents again.',
      lock: lockTables('registry.users', 'registry.agents'),
      statement: `UPDATE registry.users u
        SET agents = (SELECT count(*) FROM registry.agents a WHERE a.user_id = u.user_id)`,
    },
  },
  {
    family: 'registry.agents',
    kind: 'wrong',
    find: `SELECT a.agent_id AS key, 'The agent counts ' || a.active_sessions || ' sessions and has '
          || count(s.session_id) || '.' AS problem
      FROM registry.agents a LEFT JOIN registry.sessions s
        ON s.user_id = a.user_id AND s.agent_id = a.agent_id AND s.closed_at IS NULL
      GROUP BY a.user_id, a.agent_id, a.active_sessions HAVING a.active_sessions <> count(s.session_id)
      LIMIT ${findingsMax}`,
    repair: {
      about: 'Count the sessions again.',
      lock: lockTables('registry.agents', 'registry.sessions'),
      statement: `UPDATE registry.agents a SET active_sessions = (SELECT count(*) FROM registry.sessions s
        WHERE s.user_id = a.user_id AND s.agent_id = a.agent_id AND s.closed_at IS NULL)`,
    },
  },
];
