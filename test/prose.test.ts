/** Comments, errors and pages are in plain English: no known tic, and an error about a limit names the limit. */
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const folders = ['src', 'scripts', 'bench'];

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'llms.txt',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    // The page of measurements quotes the names of rows.
    .filter((name) => name.endsWith('.md') && name !== 'performance.md')
    .map((name) => join('docs', name)),
];

/** AICQ's sentences, which clients compare byte by byte. */
const exempt: ReadonlySet<string> = new Set(['src/messaging/refusals.ts']);

/** Each pattern with the words to write instead. */
const tics: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/(?<!\b[Tt]here )\b(?:is|are) no (?!longer\b|more\b)/, 'is not a'],
  [/\banew\b/, 'again'],
  [/\b(?:tells?|told) of\b/i, 'reports'],
  [/\bwhoever\b|\bwhatever it is\b/i, 'the name of the person or thing'],
  [/\bheed/, 'reads, checks'],
  [/\bheld against\b/, 'compared with'],
  [/\btak(?:es?|en) along\b/, 'includes'],
  [/\blies (?:in|at|on|under|beside)\b/, 'is stored'],
  [/\bwhat is there\b/, 'the stored value, the current items'],
  [/\bso that nobody\b/, 'the effect'],
  [/\bgoes by\b/, 'uses the name'],
  [/\bOf two\b/, 'If two'],
  [/\b[Ll]eave \S+ away\b/, 'remove'],
  [/\bmend(?:s|ed|ing)?\b/i, 'repair, correct'],
  [/\b[Ss]ee that\b/, 'make sure that'],
  [/\bdo(?:es)? no harm\b/, 'is allowed, is harmless'],
  [/\b(?:has|have|had) lapsed\b/, 'expired'],
  [/\bas (?:long as )?the settings say\b/, 'the name of the setting'],
  [/\bdecides? again\b/, 'repeat the change'],
  [/\bgo(?:es)? on\b/, 'continues'],
  [/\bany more\b/, 'no longer'],
  [/\bh[eo]lds? up\b/, 'delays'],
  [/\blook(?:s|ed)? through\b/, 'scans'],
  [/\b(?:is|are|was|were) told\b/, 'gets'],
  [/\bby turns\b/, 'alternately'],
  [/\b(?:is|are) not there\b/, 'is missing, does not exist'],
  [/\b(?:[Tt]hrows|[Rr]efuses|[Aa]nswers|[Uu]ndefined|[Nn]ull|[Ff]alse|[Tt]rue) where\b/, 'if'],
  [/\b(?:[Oo]nly|[Mm]issing|[Ee]mpty|promise|nothing|is 0) where\b/, 'if'],
];

interface Prose {
  file: string;
  line: number;
  text: string;
}

const sources = folders.flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|js)$/.test(name) && !name.includes('node_modules'))
    .map((name) => join(root, folder, name)),
);

/**
 * Comments with their lines joined, and texts of several words. A text in code is read up to its closing
 * quote.
 */
function proseIn(file: string, source: string): Prose[] {
  const token =
    /\/\*[\s\S]*?\*\/|(?:(?<=^|\s)\/\/ [^\n]*(?:\n[ \t]*\/\/ [^\n]*)*)|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g;
  return [...source.matchAll(token)]
    .map((found) => ({
      file: relative(root, file),
      line: source.slice(0, found.index).split('\n').length,
      text: found[0].replaceAll(/\n\s*(?:\*|\/\/)? ?/g, ' '),
    }))
    .filter(({ text }) => text.split(' ').length > 2);
}

function ticsIn(prose: readonly Prose[]): string[] {
  return prose.flatMap(({ file, line, text }) =>
    tics
      .filter(([pattern]) => pattern.test(text))
      .map(
        ([pattern, instead]) => `${file}:${line}: "${pattern.exec(text)?.[0].trim()}"; write "${instead}"`,
      ),
  );
}

/**
 * Errors right after a comparison with a limit whose sentence names neither the limit nor its value.
 * `limitError` and `exceeds` name both, so they are not errors of this kind.
 */
function unnamedLimits(file: string, source: string): string[] {
  const site =
    /[<>]=?\s*(?:this\.#?)?(?:limits\.)?(\w+(?:Max|Min))\b[^;{}]*[){]\s*(?:\{\s*)?(?:throw|return) new StoaError\(\s*'\w+',\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)/g;
  return [...source.matchAll(site)].flatMap((found) => {
    const [, limit = '', sentence = ''] = found;
    if (sentence.includes(limit)) return [];
    const line = source.slice(0, found.index).split('\n').length;
    return [`${relative(root, file)}:${line}: the error ${sentence} does not name ${limit}`];
  });
}

/**
 * Errors that state a rule as a fact about the request: "Filters work on documents only.", "A name must be
 * short." A sentence about the request may stand before the rule.
 */
function bareRules(file: string, source: string): string[] {
  const site = /new StoaError\(\s*'\w+',\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)"|`([^`\\]*)`)/g;
  const rule = /^(?:An?|Each|Every|Only)\b[^.:]*\b(?:can only|cannot|must|needs?)\b|^[^.]* only\.$/;
  return [...source.matchAll(site)].flatMap((found) => {
    const sentence = found[1] ?? found[2] ?? found[3] ?? '';
    if (!rule.test(sentence)) return [];
    return [`${relative(root, file)}:${source.slice(0, found.index).split('\n').length}: "${sentence}"`];
  });
}

function isChecked(file: string): boolean {
  const path = relative(root, file).replaceAll('\\', '/');
  return !exempt.has(path);
}

describe('plain English', () => {
  const checked = sources.filter(isChecked);

  test('no comment and no text has a known tic', () => {
    expect(checked.length).toBeGreaterThan(200);
    expect(checked.flatMap((file) => ticsIn(proseIn(file, readFileSync(file, 'utf8'))))).toEqual([]);
  });

  test('no page has a known tic', () => {
    expect(pages.length).toBeGreaterThan(25);
    const lines = pages.flatMap((file) =>
      readFileSync(join(root, file), 'utf8')
        .split('\n')
        .map((text, at) => ({ file, line: at + 1, text })),
    );
    expect(ticsIn(lines)).toEqual([]);
  });

  test('an error about a limit names the limit', () => {
    expect(checked.flatMap((file) => unnamedLimits(file, readFileSync(file, 'utf8')))).toEqual([]);
  });

  test('an error does not state a rule as a fact', () => {
    expect(checked.flatMap((file) => bareRules(file, readFileSync(file, 'utf8')))).toEqual([]);
    for (const rule of ['Filters work on documents only.', 'A name must be short.'])
      expect(bareRules('x.ts', `throw new StoaError('x', '${rule}');`)).toHaveLength(1);
  });

  test.each([
    ['/** A port is no home. */', 'is no'],
    ['// Whoever asks\n// reads it anew.', 'anew'],
    ["throw new StoaError('x', 'This tells of another history.');", 'tells of'],
    ['const about = `what is there, ${name}`;', 'what is there'],
  ])('finds the tic in %s', (source, tic) => {
    expect(ticsIn(proseIn('x.ts', source)).join('\n')).toContain(`"${tic}"`);
  });

  test.each([
    "if (size > limits.valueBytesMax) throw new StoaError('too_large', 'The value is too large.');",
    "if (topics.length > topicsMax) {\n  throw new StoaError('invalid_request', `Topics are few.`, {});\n}",
  ])('finds the limit without a name in %s', (source) => {
    expect(unnamedLimits('x.ts', source)).toHaveLength(1);
  });

  test('accepts a limit with its name', () => {
    const source =
      "if (n > limits.itemsMax) throw new StoaError('x', `The list exceeds ${max} (itemsMax).`);";
    expect(unnamedLimits('x.ts', source)).toEqual([]);
  });
});
