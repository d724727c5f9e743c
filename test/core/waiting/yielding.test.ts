import { describe, expect, it } from 'vitest';
import { nextTurn } from '../../../src/core/waiting/yielding.js';

/** Takes so many turns, one after the other, and notes each of them. */
async function take(turns: number, name: string, notes: string[], isBackground: boolean): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    await nextTurn(isBackground);
    notes.push(name);
  }
}

describe('turns of the event loop', () => {
  it('go to background work only when nobody else waits, and at least once in eight', async () => {
    const notes: string[] = [];
    await Promise.all([take(20, 'filing', notes, true), take(32, 'import', notes, false)]);
    const last = notes.lastIndexOf('import');
    const during = notes.slice(0, last).filter((name) => name === 'filing').length;
    expect(during).toBeGreaterThanOrEqual(3);
    expect(during).toBeLessThanOrEqual(5);
    expect(notes.length).toBe(52);
  });

  it('alternate between two pieces of background work', async () => {
    const notes: string[] = [];
    await Promise.all([take(3, 'a', notes, true), take(3, 'b', notes, true)]);
    expect(notes.join('')).toBe('ababab');
  });
});
