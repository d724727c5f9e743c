/** How each agent program reads what its hook says. */

export type HookProgram = 'claude-code' | 'gemini' | 'codex' | 'cursor';

/** The names of the events, for programs that want them back. */
const eventNames = {
  gemini: { start: 'SessionStart', prompt: 'BeforeAgent' },
  codex: { start: 'SessionStart', prompt: 'UserPromptSubmit' },
} as const;

/** The text for the agent as the program reads it. Claude Code, and a program without a name, read plain text. */
export function hookAnswer(program: string | undefined, event: string, text: string): string {
  if (program === 'cursor') return `${JSON.stringify({ additional_context: text })}\n`;
  if (program !== 'gemini' && program !== 'codex') return text;
  const hookEventName = eventNames[program][event === 'start' ? 'start' : 'prompt'];
  return `${JSON.stringify({ hookSpecificOutput: { hookEventName, additionalContext: text } })}\n`;
}
