/** The tools for tasks of a project, which are claimed with a lease. */
import { z } from 'zod';
import { StoaError } from '../../core/errors.js';
import { taskStatus } from '../../workspaces/schemas.js';
import type { Task } from '../../workspaces/model.js';
import { cursor, limit, nextCursor } from './fields.js';
import { TaskQueue } from '../../workspaces/queue.js';
import { defineTool } from '../tool.js';

const project = z
  .string()
  .optional()
  .describe('"project" or "workspace/project"; created if new; default "default"');
/** As the project of a list. */
const allProjects = '*';
const taskId = z.string().optional().describe('task_…');

/** The list of tools names few fields, so that it stays short; an answer has those of `ShownTask`. */
const task = z.looseObject({
  id: z.string(),
  command: z.string(),
  status: z.string(),
  claimed_by: z.string().nullable(),
  output: z.string().nullable(),
});

/** The fields of a task that an agent uses. */
const usedFields = [
  'id',
  'command',
  'status',
  'priority',
  'depends_on',
  'claimed_by',
  'output',
  'error',
  'attempts',
  'reason',
  'created_at',
] as const;
type UsedFields = Pick<Task, (typeof usedFields)[number]>;
type ShownTask = UsedFields &
  Partial<Record<'run_at' | 'question' | 'answer', string>> & { labels?: readonly string[] };

const tasks = defineTool({
  name: 'tasks',
  title: 'Tasks',
  description:
    'The shared list of work. create: add a task for any agent (command says what to do). list: see ' +
    'tasks, by status, holder or label if given; project "*" lists all projects. get: one task with its ' +
    'output. cancel: end it. answer: the question of an input_required task. To do the work, use work.',
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input: z.strictObject({
    action: z.enum(['create', 'list', 'get', 'cancel', 'answer']),
    project,
    command: z.string().optional().describe('create: what is to be done'),
    priority: z.int().optional().describe('create: higher goes first'),
    depends_on: z.array(z.string()).optional().describe('create: tasks to be completed before'),
    max_attempts: z.int().min(1).optional(),
    labels: z.array(z.string()).optional().describe('create: what it needs'),
    run_at: z.string().optional().describe('create: not before, ISO 8601'),
    task: taskId,
    status: taskStatus.optional(),
    holder: z.string().optional().describe('list: held by this agent'),
    label: z.string().optional().describe('list: with this label'),
    reason: z.string().optional().describe('cancel: why'),
    answer: z.string().optional(),
    limit,
    cursor,
  }),
  output: z.object({ tasks: z.array(task), next_cursor: nextCursor.optional() }),
  run: async ({ stoa, caller }, input) => {
    switch (input.action) {
      case 'create': {
        const { project: name, priority, depends_on, max_attempts, labels, run_at } = input;
        const command = required(input, 'command');
        const added = { command, priority, depends_on, max_attempts, labels, run_at };
        return one(await new TaskQueue(stoa.workspaces, caller).add(name, added));
      }
      case 'get':
        return one(await stoa.workspaces.getTask(caller, required(input, 'task')));
      case 'cancel':
        return one(
          await stoa.workspaces.cancelTask(caller, required(input, 'task'), { reason: input.reason }),
        );
      case 'answer':
        return one(
          await stoa.workspaces.answerQuestion(caller, required(input, 'task'), {
            answer: required(input, 'answer'),
          }),
        );
      case 'list': {
        const isAll = input.project === allProjects;
        const found = isAll ? undefined : await new TaskQueue(stoa.workspaces, caller).find(input.project);
        if (found === undefined && !isAll) return { tasks: [], next_cursor: null };
        const { status, holder, label, limit: items, cursor: after } = input;
        const page = await stoa.workspaces.listTasks(caller, {
          project: found,
          status,
          holder,
          label,
          limit: items,
          cursor: after,
        });
        return { tasks: page.items.map(shown).map(shortened), next_cursor: page.next_cursor };
      }
    }
  },
});

const work = defineTool({
  name: 'work',
  title: 'Work on a task',
  description:
    'claim: take the next ready task for yourself alone; task is null when none is ready within ' +
    'wait_seconds. Do it, then complete with ' +
    'output, or fail (retry: true gives it back). ask a person: the task waits and stays yours; ' +
    'heartbeat shows the answer; with release: true any agent can claim the answered task. Pass task ' +
    'and fence from the claim each time; the error "fenced" means that another agent has it now: stop.',
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input: z.strictObject({
    action: z.enum(['claim', 'heartbeat', 'complete', 'fail', 'ask']),
    project,
    wait_seconds: z.number().min(0).optional().describe('claim: wait so long, at most 60'),
    lease_seconds: z
      .number()
      .positive()
      .optional()
      .describe('claim: yours for so long without any call; default 900'),
    skills: z.array(z.string()).optional().describe('claim: only if it needs no other labels'),
    labels: z.array(z.string()).optional().describe('claim: only with all of them'),
    task: taskId,
    fence: z.int().min(1).optional().describe('From the claim'),
    output: z.string().optional().describe('The result'),
    error: z.string().optional().describe('fail: what went wrong'),
    retry: z.boolean().optional(),
    question: z.string().optional().describe('ask: what to decide'),
    release: z.boolean().optional(),
  }),
  output: z.object({
    task: task.nullable(),
    fence: z.int().optional(),
    expires_at: z.string().optional(),
  }),
  run: async ({ stoa, caller, signal }, input) => {
    if (input.action === 'claim') {
      const id = await new TaskQueue(stoa.workspaces, caller).ensure(input.project);
      const claim = await stoa.workspaces.claimTask(
        caller,
        id,
        {
          wait: input.wait_seconds,
          lease_seconds: input.lease_seconds ?? stoa.limits.mcpTaskLeaseSeconds,
          labels: input.labels,
          skills: input.skills,
        },
        { signal },
      );
      return claim === null
        ? { task: null }
        : { task: shown(claim.task), fence: claim.lease.fence, expires_at: claim.lease.expires_at };
    }
    const id = required(input, 'task');
    const fence = required(input, 'fence');
    const { output, error, retry } = input;
    switch (input.action) {
      case 'complete':
        return { task: shown(await stoa.workspaces.completeTask(caller, id, { fence, output })) };
      case 'fail':
        return {
          task: shown(await stoa.workspaces.failTask(caller, id, { fence, output, error, retry })),
        };
      case 'ask': {
        const question = required(input, 'question');
        const asked = { fence, question, release: input.release };
        return { task: shown(await stoa.workspaces.askQuestion(caller, id, asked)) };
      }
      case 'heartbeat': {
        const { lease } = await stoa.workspaces.heartbeatTask(caller, id, { fence });
        return {
          task: shown(await stoa.workspaces.getTask(caller, id)),
          fence: lease.fence,
          expires_at: lease.expires_at,
        };
      }
    }
  },
});

export const taskTools = [tasks, work];

function one(found: Task) {
  return { tasks: [shown(found)] };
}

function shown(found: Task): ShownTask {
  const { labels, run_at, question, answer } = found;
  return {
    // Object.fromEntries forgets which names it was given.
    ...(Object.fromEntries(usedFields.map((name) => [name, found[name]])) as UsedFields),
    // Most tasks have none.
    ...(labels.length > 0 && { labels }),
    ...(run_at !== null && { run_at }),
    ...(question !== null && { question }),
    ...(answer !== null && { answer }),
  };
}

/** Characters of each text of a task in a list. */
const listedCharactersMax = 1_000;

/** Long outputs in a list would fill an agent's context; a single task is shown completely. */
function shortened(listed: ShownTask): ShownTask {
  return {
    ...listed,
    command: cut(listed.command),
    output: listed.output && cut(listed.output),
    error: listed.error && cut(listed.error),
  };
}

function cut(text: string): string {
  return text.length <= listedCharactersMax
    ? text
    : `${text.slice(0, listedCharactersMax).toWellFormed()}… (${text.length} characters; get shows all)`;
}

/**
 * The schema does not say which fields an action needs, because models fill in a flat list of fields best.
 */
export function required<Input extends { action?: string }, Name extends keyof Input & string>(
  input: Input,
  name: Name,
): NonNullable<Input[Name]> {
  const value = input[name];
  if (value === undefined || value === null)
    throw new StoaError(
      'invalid_request',
      `${name} is missing. ${input.action === undefined ? 'The call' : `The action "${input.action}"`} needs it.`,
      { details: { errors: [{ field: name, message: 'is missing' }] } },
    );
  return value;
}
