/** A reader's terminal: runs the commands of a page, and compares their output with the page. */
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { useProgram } from '../cli/program.js';
import { type Block, putOnPath } from './pages.js';

type Program = ReturnType<typeof useProgram>;

/** A reader's machine: a home, a project, the program, and a server on a free port. */
export async function machine(program: Program, name: string, data: string) {
  const [home, project, bin] = ['home', 'project', 'bin'].map((part) => program.path(join(name, part))) as [
    string,
    string,
    string,
  ]; // map forgets how many there are.
  for (const directory of [home, project, bin]) await mkdir(directory, { recursive: true });
  await putOnPath(bin);
  const server = await program.up(join(data === '~/stoa' ? home : project, data.replace('~/', '')));
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([variable]) => !variable.startsWith('STOA_')),
  );
  const env = { ...inherited, HOME: home, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
  // Programs say what they do on one stream and print data on the other; a terminal shows both.
  const run = async (script: string): Promise<string> =>
    (
      await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', `exec 2>&1\n${script}`], {
        cwd: project,
        env,
      })
    ).stdout;
  const place = (text: string): string =>
    text
      .replaceAll('http://127.0.0.1:7862', server.url)
      .replaceAll('/var/backups/stoa', join(home, 'backups'));
  return { server, run, place, home, project };
}

/** Each command of a session at a terminal, with what the page shows of its output. */
export function stepsOf({ text }: Block): { command: string; shown: string }[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const lines = step.split('\n');
      // A command continues while a line ends with a backslash or a quote is open.
      let end = 1;
      while (
        end < lines.length &&
        (lines[end - 1]?.endsWith('\\') === true ||
          lines.slice(0, end).join('\n').split("'").length % 2 === 0)
      )
        end += 1;
      return { command: lines.slice(0, end).join('\n'), shown: lines.slice(end).join('\n').trim() };
    });
}

export const ids = /\b(ws|proj|sess|task)_[0-9a-f-]{36}\b|\b[0-9a-f]{64}\b/g;

export function kindOf(id: string): string {
  return id.includes('_') ? id.slice(0, id.indexOf('_')) : 'agent';
}

/** The output on a page as a pattern: ids and times match any others, and `…` matches anything. */
export function patternOf(shown: string): RegExp {
  const parts: [RegExp, string][] = [
    [/\d{4}-\d\d-\d\dT[\d:.]+Z/, String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z`],
    [/(?:ws|proj|sess|task)_[0-9a-f-]{36}/, String.raw`[a-z]+_[0-9a-f-]{36}`],
    [/(?:ws|proj|sess|task)_[0-9a-f]{8}\b/, '[a-z]+_[0-9a-f]{8}'],
    [/\b0\.\d\d\b/, String.raw`0\.\d\d`],
    [/0{8}-[0-9a-f-]{27}/, String.raw`[0-9a-f-]{36}`],
    [/[0-9a-f]{36,64}/, '[0-9a-f]+'],
    [/\b[0-9a-f]{12}-/, '[0-9a-f]{12}-'],
    [/01[0-9A-Z]{24}/, '[0-9A-Z]{26}'],
    [/\b[0-9a-f]{8}\b/, '[0-9a-f]{8}'],
    [/\b[0-9A-HJKMNP-TV-Z]{8}\b/, '[0-9A-HJKMNP-TV-Z]{8}'],
    [/\b\d+[smhd]\b/, String.raw`\d+[smhd]`],
    [/…/, String.raw`[\s\S]*?`],
    [/\s+/, String.raw`\s+`],
  ];
  const tokens = new RegExp(parts.map(([part]) => `(${part.source})`).join('|'), 'g');
  let [source, at] = ['', 0];
  for (const match of shown.matchAll(tokens)) {
    source +=
      escaped(shown.slice(at, match.index)) +
      (parts[match.slice(1).findIndex((group) => group !== undefined)]?.[1] ?? '');
    at = match.index + match[0].length;
  }
  return new RegExp(`^\\s*${source}${escaped(shown.slice(at))}\\s*$`);
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}
