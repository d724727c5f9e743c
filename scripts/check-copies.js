/**
 * Part of `npm run lint`: fails if a block of code stands in two places. A copied block is a function or a
 * constant that has no name yet.
 *
 * Compared are lines of code: without comments, imports, re-exports, lines that only close something, and the
 * single names of long lists of fields. Examples of records (`examples.ts`) repeat the fields of records.
 * Tests may repeat more than sources, because each of them must be readable alone.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(fileURLToPath(import.meta.url), '..', '..');

/** The number of equal lines in a row that is one too many, for each folder. */
const equalLines = { src: 9, bench: 9, scripts: 9, test: 12 };

const copies = Object.entries(equalLines).flatMap(([folder, lines]) => copiesIn(filesOf(folder), lines));
for (const { first, second, lines } of copies)
  console.error(`${placeOf(first, lines)} and ${placeOf(second, lines)}: ${lines} equal lines of code`);
if (copies.length > 0) {
  console.error(`\n${copies.length} copied blocks. Give the block a name, and use it in both places.`);
  process.exitCode = 1;
}

function filesOf(folder) {
  return readdirSync(join(root, folder), { recursive: true })
    .filter((name) => /\.(m?js|ts)$/.test(name) && !name.split(sep).includes('node_modules'))
    .filter((name) => !name.split(sep).some((part) => part === 'generated' || part === 'report'))
    .filter((name) => !name.endsWith(`${sep}examples.ts`))
    .toSorted()
    .map((name) => join(root, folder, name));
}

/** Pairs of places with at least `linesMin` equal lines in a row. Each pair is as long as it can be. */
function copiesIn(files, linesMin) {
  const seen = new Map();
  const found = [];
  for (const file of files) {
    const lines = codeLines(readFileSync(file, 'utf8'));
    for (let at = 0; at + linesMin <= lines.length; at += 1) {
      const block = lines.slice(at, at + linesMin).map(({ text }) => text);
      const name = block.join('\n');
      const place = { file, lines, at };
      const before = seen.get(name);
      if (before === undefined) {
        seen.set(name, place);
        continue;
      }
      // A block that repeats itself at once, such as a table of equal rows, is not a copy.
      if (before.file === file && at < before.at + linesMin) continue;
      const equal = equalFrom(before, place);
      found.push({ first: before, second: place, lines: equal });
      at += equal - linesMin;
    }
  }
  return found;
}

function equalFrom(first, second) {
  let equal = 0;
  while (
    second.at + equal < second.lines.length &&
    first.lines[first.at + equal]?.text === second.lines[second.at + equal].text
  )
    equal += 1;
  return equal;
}

function placeOf({ file, lines, at }, length) {
  return `${relative(root, file)}:${lines[at].number}-${lines[at + length - 1].number}`;
}

/** The lines that say something, each with its number. */
function codeLines(text) {
  const lines = [];
  let inComment = false;
  let inImport = false;
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (inComment) {
      inComment = !line.includes('*/');
      continue;
    }
    if (inImport) {
      inImport = !line.endsWith(';');
      continue;
    }
    if (line.startsWith('/*')) {
      inComment = !line.includes('*/');
      continue;
    }
    if (/^import\b|^export (type )?(\{|\*)/.test(line)) {
      inImport = !line.endsWith(';');
      continue;
    }
    if (line.startsWith('//') || /^(?:[\s\])};,]*|\w+,)$/.test(line)) continue;
    lines.push({ number: index + 1, text: line });
  }
  return lines;
}
