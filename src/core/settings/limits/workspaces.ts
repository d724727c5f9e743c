/** Limits of workspaces, projects, work sessions and tasks. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const workspaceLimits = {
  workSessionIdleSeconds: {
    default: 1_800,
    about:
      'Seconds without activity before a session ends, unless the session sets its own time; 0 means never.',
  },
  workSessionLifetimeSeconds: {
    default: 24 * 3600,
    about:
      'Seconds after its start when a session ends, unless the session sets its own time; 0 means never.',
  },
  taskLeaseSeconds: {
    default: 60,
    positive: true,
    about: 'Seconds that a claim lives, unless the claim sets its own time.',
  },
  taskLeaseSecondsMax: { default: 24 * 3600, positive: true, about: 'Seconds that a claim may ask for.' },
  taskAttempts: { default: 3, about: 'Attempts before a task fails, unless the task sets its own number.' },
  taskAttemptsMax: { default: 1_000, about: 'Attempts that a task may ask for.' },
  taskRetrySecondsMax: {
    default: 7 * 24 * 3600,
    about: 'Seconds that a task may wait after a failed attempt.',
  },
  taskCommandCharactersMax: { default: 10_000, about: "Characters in a task's command." },
  taskOutputBytesMax: { default: 1024 * 1024, about: "Bytes of a task's output." },
  taskErrorCharactersMax: {
    default: 10_000,
    about: "Characters in a task's error or in the reason of a cancellation.",
  },
  taskQuestionCharactersMax: {
    default: 10_000,
    about: 'Characters in a question of a task, or in its answer.',
  },
  taskQuestionSeconds: {
    default: 24 * 3600,
    positive: true,
    about: 'Seconds until a question without an answer expires, unless the question sets its own time.',
  },
  taskQuestionSecondsMax: {
    default: 90 * 24 * 3600,
    positive: true,
    about: 'Seconds until expiry that a question may ask for.',
  },
  taskDependenciesMax: { default: 100, about: 'Tasks that one task may depend on.' },
  taskLabelsMax: { default: 16, about: 'Labels of one task.' },
  taskLabelBytesMax: { default: 64, about: 'Bytes in a label of a task.' },
  claimLabelsMax: { default: 64, about: 'Labels or skills in one list of a claim.' },
  taskPriorityMax: { default: 1_000, about: 'Highest priority of a task. The lowest is its negative.' },
  claimWaitSecondsMax: {
    default: 60,
    max: timerSecondsMax,
    about: 'Seconds that a claim may wait for a task.',
  },
  claimsWaitingMax: { default: 10_000, about: 'Claims waiting at the same time.' },
  workspaceNameCharactersMax: { default: 100, about: 'Characters in the name of a workspace or project.' },
  projectPathBytesMax: { default: 1_024, about: 'Bytes in a project path.' },
  projectDescriptionCharactersMax: { default: 500, about: 'Characters in a project description.' },
  projectTextCharactersMax: {
    default: 500,
    about: "Characters in a project's git URL, branch or language.",
  },
  projectConfigBytesMax: { default: 64 * 1024, about: "Bytes of a project's config or git_info as JSON." },
  workSessionMetadataBytesMax: { default: 64 * 1024, about: "Bytes of a session's metadata as JSON." },
  workSessionActivitySeconds: {
    default: 5,
    about: "Seconds between updates of a session's last_active by heartbeats.",
  },
  workspacePageItemsDefault: {
    default: 20,
    positive: true,
    about: 'Workspaces, projects, sessions or tasks on a page when the request has no limit.',
  },
  workspacePageItemsMax: {
    default: 100,
    positive: true,
    about:
      'Workspaces, projects, sessions or tasks on a page. A higher limit in a request is lowered to this.',
  },
  workspacePageBytesMax: {
    default: 4 * 1024 * 1024,
    positive: true,
    about:
      'Bytes of records on a page of workspaces, projects, sessions or tasks. The page ends early there.',
  },
  workspaceStepRowsMax: {
    default: 500,
    positive: true,
    about: 'Rows that a cascade, purge or rekey changes in one transaction.',
  },
} as const satisfies LimitGroup;
