/**
 * Hooks of Claude Code (`.claude/settings.json`): at the start of a session and before each prompt, a command
 * tells the agent who is here and what is new. After the tool `agents`, it notes which agent the session is.
 */
import { type ParseError, applyEdits, modify, parse } from 'jsonc-parser';
import { unreadable } from './merge-settings.js';

/** The events, and the argument of `stoa hook` for each. */
export const hookEvents = { SessionStart: 'start', UserPromptSubmit: 'prompt', PostToolUse: 'tool' } as const;
/** The cases of an event in which the hook runs. */
const matchers: Readonly<Record<string, string>> = {
  SessionStart: 'startup|resume|clear|compact',
  PostToolUse: 'mcp__stoa__agents',
};

interface HookGroup {
  matcher?: string;
  hooks?: { type?: string; command?: string }[];
}

/** The file with our command in each event, once. An entry of an earlier run is replaced. */
export function mergeHooks(text: string, command: (event: string) => string, file: string): string {
  return changed(text, file, (event, others) => [
    ...others,
    {
      ...(matchers[event] !== undefined && { matcher: matchers[event] }),
      hooks: [{ type: 'command', command: command(event), timeout: 10 }],
    },
  ]);
}

export function removeHooks(text: string, file: string): string {
  return changed(text, file, (_event, others) => (others.length === 0 ? undefined : others));
}

function changed(
  text: string,
  file: string,
  groupsOf: (event: string, others: HookGroup[]) => HookGroup[] | undefined,
): string {
  let edited = text.trim() === '' ? '{}\n' : text;
  for (const event of Object.keys(hookEvents)) {
    const errors: ParseError[] = [];
    const root = parse(edited, errors, { allowTrailingComma: true }) as
      | { hooks?: Record<string, HookGroup[]> }
      | undefined;
    const groups = root?.hooks?.[event] ?? [];
    if (errors.length > 0 || root === undefined || !Array.isArray(groups))
      throw unreadable(file, 'its hooks cannot be read');
    const others = groups.filter((group) => !isOurs(group));
    const wanted = groupsOf(event, others);
    if (JSON.stringify(wanted ?? []) === JSON.stringify(groups)) continue;
    edited = applyEdits(
      edited,
      modify(edited, ['hooks', event], wanted, {
        formattingOptions: { insertSpaces: true, tabSize: 2, eol: '\n' },
      }),
    );
  }
  return edited.endsWith('\n') ? edited : `${edited}\n`;
}

function isOurs({ hooks = [] }: HookGroup): boolean {
  return hooks.some(({ command }) => /\bstoa\b.*\bhook (?:start|prompt|tool)\b/.test(command ?? ''));
}
