/** What a task waits for and what waits for it, as a graph from top to bottom: a panel is narrow, a chain can be long. */
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { href } from '../../router.js';
import type { ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { visible } from '../../ui/format.js';
import { Status } from '../../ui/parts.js';
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

const [nodeWidth, nodeHeight, gapX, gapY] = [180, 42, 12, 26];

interface Place {
  readonly x: number;
  readonly y: number;
  readonly level: number;
}

function GraphPicture({ graph, chosen }: { graph: Graph; chosen: string }) {
  const places = new Map<string, Place>();
  for (const [level, tasks] of graph.levels.entries())
    for (const [at, { id }] of tasks.entries())
      places.set(id, { x: at * (nodeWidth + gapX), y: level * (nodeHeight + gapY), level });
  const frame = useRef<HTMLDivElement>(null);
  const { x = 0, y = 0 } = places.get(chosen) ?? {};
  useLayoutEffect(() => {
    // The task itself is in view, also in a long chain.
    const { clientWidth = 0, clientHeight = 0 } = frame.current ?? {};
    frame.current?.scrollTo({
      left: x + nodeWidth - clientWidth + gapX,
      top: y + nodeHeight - clientHeight + gapY,
    });
  }, [x, y]);
  // The last gap has room for edges that pass beside the nodes.
  const width = Math.max(...graph.levels.map(({ length }) => length)) * (nodeWidth + gapX) + gapX;
  const height = graph.levels.length * (nodeHeight + gapY) - gapY;
  return (
    <div class="graph" ref={frame} tabIndex={0} role="region" aria-label="Graph of dependencies">
      <div class="graph-space" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {graph.edges.map(({ from, to }) => {
            const [a, b] = [places.get(from), places.get(to)];
            return a === undefined || b === undefined ? null : (
              <path key={`${from} ${to}`} d={edgePath(a, b)} />
            );
          })}
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

/** From the lower edge of a node to the upper edge of another; past the levels between them, beside their nodes. */
function edgePath(from: Place, to: Place): string {
  const [x1, y1] = [from.x + nodeWidth / 2, from.y + nodeHeight];
  const [x2, y2] = [to.x + nodeWidth / 2, to.y];
  if (to.level - from.level <= 1) {
    const middle = (y1 + y2) / 2;
    return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  }
  const side = Math.max(from.x, to.x) + nodeWidth + gapX / 2;
  const [upper, lower] = [y1 + gapY / 2, y2 - gapY / 2];
  return (
    `M${x1} ${y1}C${x1} ${upper} ${side} ${upper} ${side} ${upper + gapY}` +
    `L${side} ${lower - gapY}C${side} ${lower} ${x2} ${lower} ${x2} ${y2}`
  );
}
