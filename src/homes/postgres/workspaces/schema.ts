/** The tables of workspaces in PostgreSQL. */
import { taskMarks } from '../find/schema.js';
import type { DomainTables, Migration, SteppedMigration } from '../database/migrate.js';

/** A migration from the previous version of the tables. */
export interface TableMigration {
  /** For example `001_initial`. Stored as `meta:last_migration`. */
  name: string;
  up: string;
  /** For a migration that changes too many rows for one transaction. */
  rows?: Pick<SteppedMigration, 'first' | 'rewrite'>;
}

/**
 * Every primary key begins with the owner, so that the tables can be distributed by owner. The indexes on
 * `id` alone are for requests of the operator, which have no owner.
 */
const initialTables = `
  CREATE SCHEMA IF NOT EXISTS workspaces;

  CREATE TABLE workspaces.workspaces (
    owner_id text NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    project_path text NOT NULL,
    status text NOT NULL,
    claude_key text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    version integer NOT NULL,
    removed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (owner_id, id)
  );
  CREATE INDEX workspaces_id ON workspaces.workspaces (id);
  CREATE UNIQUE INDEX workspaces_name ON workspaces.workspaces (owner_id, name) WHERE deleted_at IS NULL;

  CREATE TABLE workspaces.projects (
    owner_id text NOT NULL,
    id text NOT NULL,
    workspace_id text NOT NULL,
    name text NOT NULL,
    path text NOT NULL,
    description text NOT NULL,
    git_url text NOT NULL,
    git_branch text NOT NULL,
    language text NOT NULL,
    status text NOT NULL,
    config json NOT NULL,
    git_info json NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    version integer NOT NULL,
    open_tasks bigint NOT NULL DEFAULT 0 CHECK (open_tasks >= 0),
    removed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (owner_id, id),
    FOREIGN KEY (owner_id, workspace_id) REFERENCES workspaces.workspaces
  );
  CREATE INDEX projects_id ON workspaces.projects (id);
  CREATE UNIQUE INDEX projects_name ON workspaces.projects (owner_id, workspace_id, name)
    WHERE deleted_at IS NULL;
  CREATE INDEX projects_workspace ON workspaces.projects (owner_id, workspace_id, id);

  CREATE TABLE workspaces.sessions (
    owner_id text NOT NULL,
    id text NOT NULL,
    project_id text NOT NULL,
    agent_id text,
    process_id bigint,
    status text NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    last_active timestamptz NOT NULL,
    metadata json NOT NULL,
    command_count bigint NOT NULL,
    bytes_in bigint NOT NULL,
    bytes_out bigint NOT NULL,
    error_count bigint NOT NULL,
    max_idle_time double precision NOT NULL,
    max_lifetime double precision NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    version integer NOT NULL,
    open_tasks bigint NOT NULL DEFAULT 0 CHECK (open_tasks >= 0),
    removed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (owner_id, id),
    FOREIGN KEY (owner_id, project_id) REFERENCES workspaces.projects
  );
  CREATE INDEX sessions_id ON workspaces.sessions (id);
  CREATE INDEX sessions_project ON workspaces.sessions (owner_id, project_id, id);
  -- A project has at most one active session.
  CREATE UNIQUE INDEX sessions_active ON workspaces.sessions (owner_id, project_id)
    WHERE status IN ('active', 'idle') AND NOT removed;

  CREATE TABLE workspaces.tasks (
    owner_id text NOT NULL,
    id text NOT NULL,
    session_id text NOT NULL,
    project_id text NOT NULL,
    command text NOT NULL,
    status text NOT NULL,
    output text,
    error text,
    started_at timestamptz,
    completed_at timestamptz,
    bytes_in bigint NOT NULL,
    bytes_out bigint NOT NULL,
    duration double precision,
    depends_on json NOT NULL,
    priority integer NOT NULL,
    claimed_by text,
    attempts integer NOT NULL,
    max_attempts integer NOT NULL,
    reason text,
    labels text[] NOT NULL,
    run_at timestamptz,
    retry json,
    question text,
    asked_at timestamptz,
    question_expires_at timestamptz,
    answer text,
    answered_at timestamptz,
    answered_by text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    version integer NOT NULL,
    -- The number of unfinished tasks that this task depends on.
    blockers integer NOT NULL DEFAULT 0 CHECK (blockers >= 0),
    PRIMARY KEY (owner_id, id),
    FOREIGN KEY (owner_id, session_id) REFERENCES workspaces.sessions,
    FOREIGN KEY (owner_id, project_id) REFERENCES workspaces.projects
  );
  CREATE INDEX tasks_id ON workspaces.tasks (id);
  CREATE INDEX tasks_session ON workspaces.tasks (owner_id, session_id, id);
  CREATE INDEX tasks_status ON workspaces.tasks (owner_id, session_id, status, id);
  CREATE INDEX tasks_owner ON workspaces.tasks (owner_id, status, id);
  CREATE INDEX tasks_project ON workspaces.tasks (owner_id, project_id, status, id);
  CREATE INDEX tasks_claimed ON workspaces.tasks (owner_id, claimed_by, id)
    WHERE status IN ('running', 'input_required');
  CREATE INDEX tasks_question ON workspaces.tasks (question_expires_at) WHERE status = 'input_required';
  -- A claim reads the first row of this index, so its cost does not grow with the number of ready tasks.
  CREATE INDEX tasks_ready ON workspaces.tasks (owner_id, project_id, priority DESC, created_at, id)
    WHERE status = 'pending' AND blockers = 0 AND run_at IS NULL;
  CREATE INDEX tasks_start ON workspaces.tasks (run_at) WHERE status = 'pending' AND run_at IS NOT NULL;

  -- A row for each label of a task. The triggers below write it.
  CREATE TABLE workspaces.task_labels (
    owner_id text NOT NULL,
    label text NOT NULL,
    status text NOT NULL,
    task_id text NOT NULL,
    project_id text NOT NULL,
    is_ready boolean NOT NULL,
    priority integer NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (owner_id, label, status, task_id)
  );
  -- A claim that requires a label reads the first row of this index.
  CREATE INDEX task_labels_ready
    ON workspaces.task_labels (owner_id, project_id, label, priority DESC, created_at, task_id) WHERE is_ready;

  CREATE FUNCTION workspaces.put_labels() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP <> 'INSERT' THEN
      DELETE FROM workspaces.task_labels
        WHERE owner_id = OLD.owner_id AND label = ANY (OLD.labels) AND status = OLD.status AND task_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
      INSERT INTO workspaces.task_labels
        SELECT NEW.owner_id, label, NEW.status, NEW.id, NEW.project_id,
          NEW.status = 'pending' AND NEW.blockers = 0 AND NEW.run_at IS NULL, NEW.priority, NEW.created_at
        FROM unnest(NEW.labels) AS label;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER task_inserted AFTER INSERT ON workspaces.tasks
    FOR EACH ROW WHEN (NEW.labels <> '{}') EXECUTE FUNCTION workspaces.put_labels();
  CREATE TRIGGER task_updated AFTER UPDATE ON workspaces.tasks
    FOR EACH ROW WHEN (OLD.labels <> '{}' OR NEW.labels <> '{}') EXECUTE FUNCTION workspaces.put_labels();
  CREATE TRIGGER task_deleted AFTER DELETE ON workspaces.tasks
    FOR EACH ROW WHEN (OLD.labels <> '{}') EXECUTE FUNCTION workspaces.put_labels();

  CREATE TABLE workspaces.task_dependencies (
    owner_id text NOT NULL,
    depends_on text NOT NULL,
    task_id text NOT NULL,
    PRIMARY KEY (owner_id, depends_on, task_id),
    FOREIGN KEY (owner_id, task_id) REFERENCES workspaces.tasks ON DELETE CASCADE
  );
  CREATE INDEX task_dependencies_task ON workspaces.task_dependencies (owner_id, task_id);

  CREATE TABLE workspaces.leases (
    owner_id text NOT NULL,
    task_id text NOT NULL,
    holder text,
    fence integer NOT NULL,
    lease_seconds double precision NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    result_digest text,
    PRIMARY KEY (owner_id, task_id),
    FOREIGN KEY (owner_id, task_id) REFERENCES workspaces.tasks ON DELETE CASCADE
  );
  CREATE INDEX leases_expiry ON workspaces.leases (expires_at) WHERE holder IS NOT NULL;

  -- Fails with a serialization error if the lease has changed since its writer read it.
  CREATE FUNCTION workspaces.put_lease(
    owner text, task text, new_holder text, new_fence integer, seconds double precision, renewed timestamptz,
    expires timestamptz, digest text, fence_read integer, renewed_read timestamptz) RETURNS void
  LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO workspaces.leases AS l
        (owner_id, task_id, holder, fence, lease_seconds, renewed_at, expires_at, result_digest)
      VALUES (owner, task, new_holder, new_fence, seconds, renewed, expires, digest)
      ON CONFLICT (owner_id, task_id) DO UPDATE SET holder = excluded.holder, fence = excluded.fence,
        lease_seconds = excluded.lease_seconds, renewed_at = excluded.renewed_at,
        expires_at = excluded.expires_at, result_digest = excluded.result_digest
      WHERE l.fence = fence_read AND l.renewed_at = renewed_read;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'the lease of % has changed', task USING ERRCODE = 'serialization_failure';
    END IF;
  END $$;

  -- Work that is too large for one transaction. A row is deleted when its work is done.
  CREATE TABLE workspaces.bulk_work (
    owner_id text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (owner_id, kind, name)
  );

  -- The progress of a re-keying: the id of the new key and the last record that was re-encrypted.
  CREATE TABLE workspaces.reseals (
    key_id text PRIMARY KEY,
    entity text NOT NULL,
    owner_id text NOT NULL,
    id text NOT NULL
  );

  CREATE TABLE workspaces.metadata (key text PRIMARY KEY, value text NOT NULL);

  ${taskMarks}`;

export const workspacesMigrations: readonly TableMigration[] = [{ name: '001_initial', up: initialTables }];

export const workspacesTables: DomainTables = {
  domain: 'workspaces',
  about: 'the schema workspaces',
  migrations: stepsOf(workspacesMigrations),
};

/** Each migration stores its version under the seed's metadata keys. */
export function stepsOf(migrations: readonly TableMigration[]): Migration[] {
  return migrations.map(({ name, up, rows }, index) => {
    const storeVersion = `INSERT INTO workspaces.metadata
      VALUES ('meta:schema_version', '${index + 1}'), ('meta:last_migration', '${name}')
      ON CONFLICT (key) DO UPDATE SET value = excluded.value`;
    return rows === undefined ? `${up}; ${storeVersion}` : { up, ...rows, finish: storeVersion };
  });
}
