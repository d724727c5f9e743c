/**
 * Questions of a task to a person, as pure functions that every backend calls. Of an answer, the expiry and a
 * cancellation exactly one happens, because each needs the status `input_required`.
 */
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { isoTime } from '../../core/text/iso-time.js';
import type { Task } from '../model.js';
import type { Reporter } from '../port.js';
import type { AnswerRequest, AskRequest } from '../schemas.js';
import { checkTaskTransition } from '../rules/transitions.js';
import {
  type HeldTask,
  type LeaseEnd,
  checkHolder,
  ended,
  releasedLease,
  renewed,
  touched,
  unheld,
} from './tasks.js';

/**
 * The holder asks. The holder keeps its claim while its heartbeats continue, or gives the claim up with
 * `release`, also later with the same question. `undefined`: the same question was asked before.
 */
export function askQuestion(
  held: HeldTask,
  { fence, question, expires_seconds, release }: AskRequest,
  limits: Limits,
  nowMs: number,
  endOf: LeaseEnd,
  by: Reporter,
): HeldTask | undefined {
  const { task } = held;
  const isOpen = task.status === 'input_required' && task.question === question;
  if (isOpen && release === true && held.lease?.fence === fence && held.lease.holder === null)
    return undefined;
  const lease = checkHolder(held, fence, nowMs, endOf, by);
  if (isOpen && release !== true) return undefined;
  if (isOpen) return unheld({ ...task, claimed_by: null }, lease, nowMs);
  checkTaskTransition(task.status, 'input_required');
  const expiresAtMs = nowMs + (expires_seconds ?? limits.taskQuestionSeconds) * 1_000;
  const asked: Task = {
    ...task,
    status: 'input_required',
    question,
    asked_at: isoTime(nowMs),
    question_expires_at: isoTime(expiresAtMs),
    answer: null,
    answered_at: null,
    answered_by: null,
    claimed_by: release === true ? null : task.claimed_by,
  };
  return { task: touched(asked, nowMs), lease: release === true ? releasedLease(lease) : lease };
}

/**
 * Back to the holder with a new lease, or to pending if the holder is lost. That is not a failed attempt.
 * `undefined`: answered so before.
 */
export function answerQuestion(
  { task, lease }: HeldTask,
  { answer }: AnswerRequest,
  answeredBy: string,
  nowMs: number,
  endOf: LeaseEnd,
  by: Reporter,
): HeldTask | undefined {
  if (task.status !== 'input_required') {
    if (task.answer === answer) return undefined;
    throw new StoaError('conflict', `The task ${task.id} is ${task.status} and has no open question.`, {
      fix: 'List the tasks that wait for an answer: status input_required.',
      details: { status: task.status },
    });
  }
  const holder = lease === undefined || endOf(lease) <= nowMs ? null : lease.holder;
  if (task.claimed_by !== null && by !== null && by.includes(task.claimed_by))
    throw new StoaError('forbidden', `The question of the task ${task.id} was asked by this agent itself.`, {
      fix: 'A person or another agent has to answer.',
    });
  const answered = {
    ...task,
    answer,
    answered_at: isoTime(nowMs),
    answered_by: answeredBy,
    question_expires_at: null,
  };
  if (lease !== undefined && holder !== null)
    return { task: touched({ ...answered, status: 'running' }, nowMs), lease: renewed(lease, nowMs) };
  const back: Task = {
    ...answered,
    status: 'pending',
    claimed_by: null,
    started_at: null,
    reason: `${answeredBy} answered the question while no agent held the task.`,
  };
  return unheld(back, lease, nowMs);
}

/** No answer came in time: the task fails. */
export function expireQuestion({ task, lease }: HeldTask, nowMs: number): HeldTask {
  checkTaskTransition(task.status, 'failed');
  const reason = `The question expired without an answer: ${(task.question ?? '').slice(0, 200)}`;
  const failed = { ...ended(task, 'failed', nowMs), error: reason, reason, attempts: task.attempts + 1 };
  return unheld(failed, lease, nowMs);
}
