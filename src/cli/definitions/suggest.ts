/** Suggests a command for a mistyped one: the same words in another order or place. */
import type { CommandDefinition } from './definition.js';

/**
 * The command that has `word` and most of the other given words: `watch data` for `data watch`,
 * `export` for `data export`. Undefined if several commands fit equally well.
 */
export function commandWith(
  word: string,
  given: readonly string[],
  tree: readonly CommandDefinition[],
): string | undefined {
  const found = pathsIn(tree).filter((path) => path.includes(word));
  const fit = (path: readonly string[]): number =>
    path.reduce((sum, part) => sum + (given.includes(part) ? 1 : -1), 0);
  const best = Math.max(...found.map(fit));
  const [first, second] = found.filter((path) => fit(path) === best);
  return second === undefined ? first?.join(' ') : undefined;
}

/** The words of every command, including those of groups. */
function pathsIn(tree: readonly CommandDefinition[]): string[][] {
  return tree.flatMap(({ usage, commands = [] }) => {
    const [word = ''] = usage.split(' ');
    return [[word], ...pathsIn(commands).map((path) => [word, ...path])];
  });
}
