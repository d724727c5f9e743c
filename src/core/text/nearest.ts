/** Finds the known name that is most similar to a mistyped one. */

/** The known name with the fewest edits, or undefined if none is similar enough. */
function nearest(given: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let fewest = Math.max(2, Math.floor(given.length / 3)) + 1;
  for (const candidate of known) {
    const edits = editDistance(given.toLowerCase(), candidate.toLowerCase());
    if (edits < fewest) [best, fewest] = [candidate, edits];
  }
  return best;
}

/** ` Did you mean "x"?`, or an empty text. */
export function didYouMean(given: string, known: Iterable<string>): string {
  const meant = nearest(given, known);
  return meant === undefined ? '' : ` Did you mean "${meant}"?`;
}

function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (previous[column - 1] as number) + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] as number) + 1, (current[column - 1] as number) + 1));
    }
    previous = current;
  }
  return previous[to.length] as number;
}
