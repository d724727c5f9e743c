import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { EndOfTurn } from '../../../src/server/request/end-of-turn.js';

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('the end of a turn', () => {
  it('comes for all waiting requests, in order, after their synchronous work', async () => {
    const endOfTurn = new EndOfTurn();
    const seen: string[] = [];
    const asked = ['a', 'b', 'c'].map((name) => {
      seen.push(`${name} read`);
      return endOfTurn.wait(100).then(() => seen.push(`${name} done`));
    });
    await Promise.all(asked);
    expect(seen).toEqual(['a read', 'b read', 'c read', 'a done', 'b done', 'c done']);
  });

  it('comes again for later requests', async () => {
    const endOfTurn = new EndOfTurn();
    await endOfTurn.wait(100);
    let came = false;
    const later = endOfTurn.wait(100).then(() => {
      came = true;
    });
    await Promise.resolve();
    expect(came).toBe(false);
    await nextTurn();
    await later;
    expect(came).toBe(true);
  });

  it('passes an error only to the request that threw it', async () => {
    const endOfTurn = new EndOfTurn();
    const broken = endOfTurn.wait(100).then(() => {
      throw new Error('broken');
    });
    const whole = endOfTurn.wait(100).then(() => 'whole');
    await expect(broken).rejects.toThrow('broken');
    await expect(whole).resolves.toBe('whole');
  });

  it('keeps the async context of each request', async () => {
    const endOfTurn = new EndOfTurn();
    const context = new AsyncLocalStorage<number>();
    const found = await Promise.all(
      [1, 2, 3].map((number) =>
        context.run(number, () => endOfTurn.wait(100).then(() => context.getStore())),
      ),
    );
    expect(found).toEqual([1, 2, 3]);
  });

  it('gives large requests turns of their own, and keeps the order', async () => {
    const endOfTurn = new EndOfTurn();
    let turn = 0;
    const count = (): void => {
      turn += 1;
      if (turn < 10) setImmediate(count);
    };
    setImmediate(count);
    const sizes = [100, 100, 200_000, 200_000, 900_000, 100, 100];
    const turns = await Promise.all(sizes.map((size) => endOfTurn.wait(size).then(() => turn)));
    expect(turns).toEqual([1, 1, 1, 2, 3, 4, 4]);
  });
});
