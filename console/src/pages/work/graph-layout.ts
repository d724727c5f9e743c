/** Where the tasks of a graph are drawn: a row for each level, and room beside the tasks for edges that pass a row. */
/** Two beside each other fit into the panel of a narrow screen. */
export const [nodeWidth, nodeHeight] = [164, 42];
const [passWidth, gapX, gapY] = [10, 14, 28];

/** By level, and what each depends on above it. */
export interface Levels {
  readonly levels: readonly (readonly { readonly id: string }[])[];
  readonly edges: readonly { readonly from: string; readonly to: string }[];
}

export interface GraphLayout {
  readonly width: number;
  readonly height: number;
  /** The upper left corner of each task. */
  readonly places: ReadonlyMap<string, { readonly x: number; readonly y: number }>;
  /** Paths of SVG. */
  readonly edges: readonly string[];
}

/** A task, or the place where an edge passes a row. */
interface Slot {
  readonly id: string;
  readonly width: number;
}

export function layoutOf({ levels, edges }: Levels): GraphLayout {
  const levelOf = new Map(levels.flatMap((tasks, level) => tasks.map(({ id }) => [id, level] as const)));
  const rows: Slot[][] = levels.map((tasks) => tasks.map(({ id }) => ({ id, width: nodeWidth })));
  const chains = edges.map(({ from, to }) => {
    const chain = [from];
    for (let level = (levelOf.get(from) ?? 0) + 1; level < (levelOf.get(to) ?? 0); level += 1) {
      const id = `${from} ${to} ${level}`;
      rows[level]?.push({ id, width: passWidth });
      chain.push(id);
    }
    return [...chain, to];
  });
  order(rows, chains);
  const widths = rows.map((row) => row.reduce((sum, { width }) => sum + width + gapX, -gapX));
  const width = Math.max(nodeWidth, ...widths);
  const places = new Map<string, { x: number; y: number; width: number }>();
  for (const [level, row] of rows.entries()) {
    let x = (width - (widths[level] ?? 0)) / 2;
    for (const slot of row) {
      places.set(slot.id, { x, y: level * (nodeHeight + gapY), width: slot.width });
      x += slot.width + gapX;
    }
  }
  const paths = chains.map((chain) => {
    const points = chain.flatMap((id, at) => {
      const { x, y, width: own } = places.get(id) ?? { x: 0, y: 0, width: 0 };
      const middle = x + own / 2;
      const [top, bottom] = [
        { x: middle, y },
        { x: middle, y: y + nodeHeight },
      ];
      return at === 0 ? [bottom] : at === chain.length - 1 ? [top] : [top, bottom];
    });
    return pathThrough(points);
  });
  return { width, height: rows.length * (nodeHeight + gapY) - gapY, places, edges: paths };
}

/** Puts each slot near the slots that it is connected with, so that few edges cross. */
function order(rows: readonly Slot[][], chains: readonly (readonly string[])[]): void {
  const neighbours = new Map<string, string[]>();
  const connect = (from: string, to: string): unknown =>
    neighbours.set(from, [...(neighbours.get(from) ?? []), to]);
  for (const chain of chains)
    for (const [at, id] of chain.entries()) {
      const next = chain[at + 1];
      if (next === undefined) continue;
      connect(id, next);
      connect(next, id);
    }
  const sweep = (row: Slot[], fixed: readonly Slot[]): void => {
    const place = new Map(fixed.map(({ id }, at) => [id, at / Math.max(1, fixed.length - 1)]));
    const weight = new Map(
      row.map(({ id }, at) => {
        const found = (neighbours.get(id) ?? []).flatMap((each) => place.get(each) ?? []);
        const own = at / Math.max(1, row.length - 1);
        return [id, found.length === 0 ? own : found.reduce((sum, each) => sum + each, 0) / found.length];
      }),
    );
    row.sort((a, b) => (weight.get(a.id) ?? 0) - (weight.get(b.id) ?? 0));
  };
  for (let round = 0; round < 2; round += 1) {
    for (let at = 1; at < rows.length; at += 1) sweep(rows[at] as Slot[], rows[at - 1] as Slot[]);
    for (let at = rows.length - 2; at >= 0; at -= 1) sweep(rows[at] as Slot[], rows[at + 1] as Slot[]);
  }
}

function pathThrough(points: readonly { x: number; y: number }[]): string {
  return points
    .map(({ x, y }, at) => {
      const before = points[at - 1];
      if (before === undefined) return `M${x} ${y}`;
      const middle = (before.y + y) / 2;
      return before.x === x ? `L${x} ${y}` : `C${before.x} ${middle} ${x} ${middle} ${x} ${y}`;
    })
    .join('');
}
