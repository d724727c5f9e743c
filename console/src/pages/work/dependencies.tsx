/** What a task waits for and what waits for it, as a graph from top to bottom: a panel is narrow, a chain can be long. */
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { href } from '../../router.js';
import type { ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { visible } from '../../ui/format.js';
import { Status } from '../../ui/parts.js';
import { layoutOf, nodeHeight, nodeWidth } from './graph-layout.js';
import { type Graph, graphOf, statusTones } from './model.js';

export function Dependencies({ task }: { task: ListedTask }) {
  const { tasks } = useWorld();
  const graph = useMemo(() => graphOf(task.id, tasks.items), [task, tasks.round.value]);
  if (graph.edges.length === 0) return null;
  return (
    <section class="dependencies" aria-label="Dependencies">
      <h3>Dependencies</h3>
      <GraphPicture graph={graph} chosen={task.id} />
    </section>
  );
}

function GraphPicture({ graph, chosen }: { graph: Graph; chosen: string }) {
  const { width, height, places, edges } = useMemo(() => layoutOf(graph), [graph]);
  const frame = useRef<HTMLDivElement>(null);
  const { x = 0, y = 0 } = places.get(chosen) ?? {};
  useLayoutEffect(() => {
    // The task itself is in the middle, also in a long chain.
    const { clientWidth = 0, clientHeight = 0 } = frame.current ?? {};
    frame.current?.scrollTo({
      left: x + (nodeWidth - clientWidth) / 2,
      top: y + (nodeHeight - clientHeight) / 2,
    });
  }, [x, y]);
  return (
    <div class="graph" ref={frame} tabIndex={0} role="region" aria-label="Graph of dependencies">
      <div class="graph-space" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {edges.map((path) => (
            <path key={path} d={path} />
          ))}
        </svg>
        {graph.levels.flat().map((each) => {
          const place = places.get(each.id);
          return (
            <a
              key={each.id}
              class={`node ${each.id === chosen ? 'chosen' : ''}`}
              href={href(['work', each.id])}
              style={{ left: `${place?.x ?? 0}px`, top: `${place?.y ?? 0}px` }}
              title={visible(each.command)}
            >
              <Status name={each.status} tone={statusTones[each.status]} />
              <span class="clip">{visible(each.command)}</span>
            </a>
          );
        })}
      </div>
    </div>
  );
}
