/** What needs a person: questions, tasks without attempts left, lost agents, a disk that is nearly full. */
import { useEffect, useState } from 'preact/hooks';
import type { AgentAnswer, ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { fetchText } from '../../stoa.js';
import { readMetric } from '../../metrics.js';

export interface Attention {
  readonly questions: readonly ListedTask[];
  readonly exhausted: readonly ListedTask[];
  readonly lost: readonly AgentAnswer[];
  readonly broken: readonly AgentAnswer[];
}

export function attentionOf(agents: readonly AgentAnswer[], tasks: readonly ListedTask[]): Attention {
  return {
    questions: tasks
      .filter(({ status }) => status === 'input_required')
      .toSorted((a, b) => ((a.asked_at ?? '') < (b.asked_at ?? '') ? -1 : 1)),
    exhausted: tasks
      .filter(({ status, attempts, max_attempts }) => status === 'failed' && attempts >= max_attempts)
      .toSorted((a, b) => (a.updated_at > b.updated_at ? -1 : 1)),
    lost: agents.filter(({ presence, status }) => presence === 'lost' && status !== 'stopped'),
    broken: agents.filter(({ status }) => status === 'error'),
  };
}

export interface Disk {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

const diskEveryMs = 30_000;
/** Below this share of free space the disk needs a person. */
const diskLowShare = 0.1;

/** Undefined where the server has no disk of its own, or the caller may not see it. */
export function useDisk(): Disk | undefined {
  const { view } = useWorld();
  const [disk, setDisk] = useState<Disk | undefined>(undefined);
  useEffect(() => {
    if (!view.isOperator) return undefined;
    const stop = new AbortController();
    const look = async (): Promise<void> => {
      try {
        const text = await fetchText('/metrics', view.session, stop.signal);
        const [freeBytes, sizeBytes] = [
          readMetric(text, 'stoa_disk_free_bytes'),
          readMetric(text, 'stoa_disk_size_bytes'),
        ];
        if (freeBytes !== undefined && sizeBytes !== undefined) setDisk({ freeBytes, sizeBytes });
      } catch {
        // The state of the connection is shown beside the navigation.
      }
    };
    void look();
    const timer = setInterval(() => void look(), diskEveryMs);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [view]);
  return disk;
}

export function isLow({ freeBytes, sizeBytes }: Disk): boolean {
  return freeBytes < sizeBytes * diskLowShare;
}
