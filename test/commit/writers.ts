/** Writers that commit without end until their server is gone, and what it acknowledged to them. */

/** The numbers of the commits that were acknowledged. */
export class Acknowledged {
  readonly numbers = new Set<number>();
  #waiting: { count: number; resolve: () => void }[] = [];

  add(number: number): void {
    this.numbers.add(number);
    for (const { count, resolve } of this.#waiting) if (this.numbers.size >= count) resolve();
    this.#waiting = this.#waiting.filter(({ count }) => this.numbers.size < count);
  }

  /** Resolves when so many more have come. */
  more(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ count: this.numbers.size + count, resolve }));
  }
}

export interface Writing {
  /** The number of the next commit. */
  next: () => number;
  acknowledged: Acknowledged;
  operationsOf: (number: number) => readonly object[];
}

/** One writer, for ada. */
export async function commitUntilGone(
  { url, token }: { url: string; token: string },
  { next, acknowledged, operationsOf }: Writing,
): Promise<void> {
  for (;;) {
    const number = next();
    const answer = await commit(url, token, operationsOf(number));
    if (answer === 'gone') return;
    if (answer.ok === true) acknowledged.add(number);
  }
}

async function commit(
  url: string,
  token: string,
  operations: readonly object[],
): Promise<{ ok?: boolean } | 'gone'> {
  try {
    const response = await fetch(`${url}/v1/commit`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'stoa-user': 'ada' },
      body: JSON.stringify({ operations }),
    });
    return (await response.json()) as { ok?: boolean };
  } catch {
    // It was killed; whether this commit is in the store is what the test looks at next.
    return 'gone';
  }
}

/** What every commit writes: a document, a count, a message. */
export function resultOf(number: number): readonly object[] {
  return [
    { op: 'data.set', namespace: 'results', key: String(number), value: number },
    { op: 'data.increment', key: 'count' },
    { op: 'room.post', room: 'global', body: `result ${number}` },
  ];
}
