/** What needs a person: questions, tasks without attempts left, lost agents, a disk that is nearly full. */
import type { Disk } from '../../live/metrics.js';
import type { AgentAnswer, ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { useObservable } from '../../observable.js';
import { isLost } from './model.js';

export interface Attention {
  readonly questions: readonly ListedTask[];
  readonly exhausted: readonly ListedTask[];
  /** Lost, or in error. */
  readonly gone: readonly AgentAnswer[];
}

export function attentionOf(agents: readonly AgentAnswer[], tasks: readonly ListedTask[]): Attention {
  return {
    questions: tasks
      .filter(({ status }) => status === 'input_required')
      .toSorted((a, b) => ((a.asked_at ?? '') < (b.asked_at ?? '') ? -1 : 1)),
    exhausted: tasks
      .filter(({ status, attempts, max_attempts }) => status === 'failed' && attempts >= max_attempts)
      .toSorted((a, b) => (a.updated_at > b.updated_at ? -1 : 1)),
    gone: agents.filter((agent) => agent.status === 'error' || isLost(agent)),
  };
}

/** Below this share of free space the disk needs a person. */
const diskLowShare = 0.1;

/** Undefined where the server has no disk of its own, or the caller may not see it. */
export function useDisk(): Disk | undefined {
  const { metrics } = useWorld();
  return useObservable(metrics.readings).at(-1)?.disk;
}

export function isLow({ freeBytes, sizeBytes }: Disk): boolean {
  return freeBytes < sizeBytes * diskLowShare;
}
