/**
 * `stoa hook start|prompt`: what an agent should know now, for the hooks of agent programs, whose output the
 * agent reads. It never fails and never starts a server: a hook must not stop the agent.
 */
import { type Action, textOption } from '../definitions/definition.js';
import { roomOf } from '../mcp/scope.js';

/** Shown of each list. */
const itemsMax = 5;
const textCharactersMax = 200;
/** A prompt shows what is new since about the last one. */
const recentMs = 15 * 60 * 1000;

export const hook: Action = async ({ connect }, [event = 'start'], options) => {
  const scope = textOption(options, 'scope') ?? 'default';
  try {
    const connection = await connect();
    const [agents, locks, tasks] = await Promise.all([
      connection.call('agents.list', { limit: 50 }),
      connection.call('locks.list', { prefix: `${scope}/`, limit: itemsMax }),
      connection.call('tasks.list', { status: 'pending', limit: itemsMax }),
    ]);
    const live = agents.items.filter(({ presence }) => presence === 'live').map(({ name }) => name);
    const recent = locks.items.filter(
      ({ acquired_at }) => event === 'start' || Date.now() - Date.parse(acquired_at) < recentMs,
    );
    const lines = [
      ...(live.length === 0 ? [] : [`Agents that are here: ${live.slice(0, itemsMax * 2).join(', ')}.`]),
      ...recent.map(({ name, holder, note }) => cut(`${holder} has locked ${name}${note && ` (${note})`}.`)),
      ...(event === 'start' ? tasks.items.map(({ id, command }) => cut(`Open task ${id}: ${command}`)) : []),
    ];
    if (event === 'start') process.stdout.write(`${startText(scope)}${lines.join('\n')}\n`);
    else if (recent.length > 0) process.stdout.write(`Stoa: ${lines.join('\n')}\n`);
  } catch {
    // Without a server there is nothing to say yet; the MCP server starts one.
    if (event === 'start') process.stdout.write(startText(scope));
  }
};

function startText(scope: string): string {
  return (
    `You share the memory of ${scope} with other agents through the MCP server "stoa". Now call agents with ` +
    `action register to announce yourself, read with inbox: true for messages to you, and read for the room ` +
    `${roomOf(scope)}. Lock a file before you change it.\n`
  );
}

function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length <= textCharactersMax ? line : `${line.slice(0, textCharactersMax).toWellFormed()}…`;
}
