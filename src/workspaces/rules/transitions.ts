/** Which status may follow which. */
import { StoaError } from '../../core/errors.js';
import type { Entity, SessionStatus, TaskStatus } from '../model.js';

const sessionTransitions: Readonly<Record<SessionStatus, readonly SessionStatus[]>> = {
  pending: ['active', 'error'],
  active: ['idle', 'ending', 'error'],
  idle: ['active', 'ending', 'error'],
  ending: ['ended', 'error'],
  error: ['ended'],
  ended: [],
};

/**
 * A running task goes back to pending when its holder is lost or gives it back. An answer returns a task to
 * its holder, or to pending if the holder is lost. A retry returns a task that ended without a result.
 */
const taskTransitions: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  pending: ['running', 'cancelled'],
  running: ['completed', 'failed', 'cancelled', 'pending', 'input_required'],
  input_required: ['running', 'pending', 'failed', 'cancelled'],
  completed: [],
  failed: ['pending'],
  cancelled: ['pending'],
};

export function checkSessionTransition(from: SessionStatus, to: SessionStatus): void {
  check('session', from, to, sessionTransitions[from]);
}

export function checkTaskTransition(from: TaskStatus, to: TaskStatus): void {
  check('task', from, to, taskTransitions[from]);
}

function check(entity: Entity, from: string, to: string, allowed: readonly string[]): void {
  if (allowed.includes(to)) return;
  throw new StoaError('invalid_transition', `The ${entity} is ${from} and cannot become ${to}.`, {
    fix:
      allowed.length === 0
        ? `The status ${from} is final.`
        : `From ${from} a ${entity} can change to ${allowed.join(', ')}.`,
    details: { entity, from, to, allowed },
  });
}
