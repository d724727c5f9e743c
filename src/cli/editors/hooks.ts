/**
 * Hooks of agent programs: at the start of a session and before each prompt, a command tells the agent who is
 * here and what is new. After the tool `agents`, it notes which agent the session is.
 */
import type { HookProgram } from '../hook/answer.js';
import { edited, readJson, unreadable } from './merge-settings.js';

/** An event of a program: the argument of `stoa hook`, and the cases in which the hook runs. */
interface HookedEvent {
  readonly argument: 'start' | 'prompt' | 'tool';
  readonly matcher?: string;
}

interface HookFile {
  /** In the project. */
  readonly path: string;
  readonly events: Readonly<Record<string, HookedEvent>>;
  /** In the unit of the program. */
  readonly timeout: number;
  /** An event has a list of commands, instead of a list of groups that have a matcher and commands. */
  readonly isFlat?: true;
  /** The version of the format, for a program that requires it. */
  readonly version?: number;
}

/** Programs whose hooks can add to what the agent reads. */
const files: Readonly<Record<HookProgram, HookFile>> = {
  'claude-code': {
    path: '.claude/settings.json',
    events: {
      SessionStart: { argument: 'start', matcher: 'startup|resume|clear|compact' },
      UserPromptSubmit: { argument: 'prompt' },
      PostToolUse: { argument: 'tool', matcher: 'mcp__stoa__agents' },
    },
    timeout: 10,
  },
  gemini: {
    path: '.gemini/settings.json',
    events: {
      SessionStart: { argument: 'start' },
      BeforeAgent: { argument: 'prompt' },
      // The number of underscores depends on the version of the program.
      AfterTool: { argument: 'tool', matcher: 'mcp_+stoa_+agents' },
    },
    timeout: 10_000,
  },
  codex: {
    path: '.codex/hooks.json',
    events: {
      SessionStart: { argument: 'start', matcher: 'startup|resume|clear' },
      UserPromptSubmit: { argument: 'prompt' },
      PostToolUse: { argument: 'tool', matcher: 'mcp__stoa__agents' },
    },
    timeout: 10,
  },
  // Its hook before a prompt can only refuse the prompt.
  cursor: {
    path: '.cursor/hooks.json',
    events: { sessionStart: { argument: 'start' } },
    timeout: 10,
    isFlat: true,
    version: 1,
  },
};

export const hookFiles: Readonly<Partial<Record<string, HookFile>>> = files;

interface HookCommand {
  type?: string;
  command?: string;
  timeout?: number;
}

interface HookGroup extends HookCommand {
  matcher?: string;
  hooks?: HookCommand[];
}

/** The file with our command in each event, once. An entry of an earlier run is replaced. */
export function mergeHooks(
  text: string,
  hookFile: HookFile,
  command: (argument: string) => string,
  file: string,
): string {
  const { timeout, isFlat, version } = hookFile;
  const hooked = changed(text, hookFile, file, ({ argument, matcher }, others) => {
    const ours = { command: command(argument), timeout };
    const group = {
      ...(matcher !== undefined && { matcher }),
      hooks: [{ type: 'command', ...ours }],
    };
    return [...others, isFlat === true ? ours : group];
  });
  const isVersioned = version === undefined || readJson(hooked, file)['version'] !== undefined;
  return isVersioned ? hooked : edited(hooked, ['version'], version);
}

export function removeHooks(text: string, hookFile: HookFile, file: string): string {
  return changed(text, hookFile, file, (_event, others) => (others.length === 0 ? undefined : others));
}

function changed(
  text: string,
  { events }: HookFile,
  file: string,
  groupsOf: (event: HookedEvent, others: HookGroup[]) => HookGroup[] | undefined,
): string {
  let hooked = text.trim() === '' ? '{}\n' : text;
  for (const [name, event] of Object.entries(events)) {
    const groups = hooksIn(hooked, file)[name] ?? [];
    if (!Array.isArray(groups)) throw unreadable(file, 'its hooks cannot be read');
    const others = groups.filter((group) => !isOurs(group));
    const wanted = groupsOf(event, others);
    if (JSON.stringify(wanted ?? []) === JSON.stringify(groups)) continue;
    hooked = edited(hooked, ['hooks', name], wanted);
  }
  return hooked.endsWith('\n') ? hooked : `${hooked}\n`;
}

function hooksIn(text: string, file: string): Record<string, HookGroup[]> {
  // `changed` checks the lists in it.
  return (readJson(text, file)['hooks'] ?? {}) as Record<string, HookGroup[]>;
}

function isOurs({ hooks = [], ...flat }: HookGroup): boolean {
  return [flat, ...hooks].some(({ command }) =>
    /\bstoa\b.*\bhook (?:start|prompt|tool)\b/.test(command ?? ''),
  );
}
