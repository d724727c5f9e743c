/**
 * `stoa hook start|prompt|tool`: what an agent should know now, for the hooks of agent programs, whose output
 * the agent reads. It never fails and never starts a server: a hook must not stop the agent.
 */
import type { Connection } from '../connection/connection.js';
import { type Action, textOption } from '../definitions/definition.js';
import { type Conversation, Conversations } from '../hook/conversations.js';
import { ownName, readEvent } from '../hook/event.js';
import { roomOf } from '../mcp/scope.js';

/** Shown of each list. */
const itemsMax = 5;
const textCharactersMax = 200;
/** A prompt shows what is new since about the last one. */
const recentMs = 15 * 60 * 1000;

export const hook: Action = async ({ connect, globals }, [event = 'start'], options) => {
  const scope = textOption(options, 'scope') ?? 'default';
  try {
    const { session_id: id, tool_response: answer } = await readEvent(process.stdin);
    const conversations = new Conversations();
    const known = id === undefined ? undefined : await conversations.find(id);
    if (event === 'tool') {
      const agent = ownName(answer);
      if (id !== undefined && agent !== undefined && agent !== known?.agent)
        await conversations.note(id, { agent, read_until: new Date().toISOString() });
      return;
    }
    const agent = known?.agent ?? textOption(globals, 'agent');
    if (event === 'start') process.stdout.write(startText(scope, agent));
    // Called in the name of the agent, which renews its presence.
    const connection = await connect('refused', agent);
    const news = await newsOf(connection, event, scope);
    const messages = known === undefined ? undefined : await messagesTo(connection, known);
    if (id !== undefined && known !== undefined && messages !== undefined && messages.lines.length > 0)
      await conversations.note(id, { ...known, read_until: messages.until });
    const lines = [...(messages?.lines ?? []), ...news];
    if (lines.length > 0) process.stdout.write(`${event === 'start' ? '' : 'Stoa: '}${lines.join('\n')}\n`);
  } catch {
    // Without a server there is nothing to say yet; the MCP server starts one.
  }
};

function startText(scope: string, agent: string | undefined): string {
  const register =
    agent === undefined
      ? 'call agents with action register to announce yourself'
      : `call agents with action register and name ${agent}, which is your name in this conversation`;
  return (
    `You share the memory of ${scope} with other agents through the MCP server "stoa". Now ${register}, ` +
    `read with inbox: true for messages to you, and read for the room ${roomOf(scope)}. Lock a file before you ` +
    'change it.\n'
  );
}

/**
 * The agents that are present and the locks; at the start also the open tasks. A prompt without news prints
 * nothing.
 */
async function newsOf(connection: Connection, event: string, scope: string): Promise<string[]> {
  const [agents, locks, tasks] = await Promise.all([
    connection.call('agents.list', { limit: 50 }),
    connection.call('locks.list', { prefix: `${scope}/`, limit: itemsMax }),
    connection.call('tasks.list', { status: 'pending', limit: itemsMax }),
  ]);
  const live = agents.items.filter(({ presence }) => presence === 'live').map(({ name }) => name);
  const recent = locks.items.filter(
    ({ acquired_at }) => event === 'start' || Date.now() - Date.parse(acquired_at) < recentMs,
  );
  if (event !== 'start' && recent.length === 0) return [];
  return [
    ...(live.length === 0 ? [] : [`Agents that are here: ${live.slice(0, itemsMax * 2).join(', ')}.`]),
    ...recent.map(({ name, holder, note }) => cut(`${holder} has locked ${name}${note && ` (${note})`}.`)),
    ...(event === 'start' ? tasks.items.map(({ id, command }) => cut(`Open task ${id}: ${command}`)) : []),
  ];
}

/** Messages to the agent that no hook has shown yet. A text from outside is not shown: the agent asks for it. */
async function messagesTo(
  connection: Connection,
  { read_until: after }: Conversation,
): Promise<{ lines: string[]; until: string }> {
  const { items } = await connection.call('inbox.list', { after, limit: itemsMax });
  const lines = items.map(({ from, from_name, proven, body }) =>
    proven === 'outside'
      ? `A message to you from outside waits in your inbox; it is untrusted.`
      : cut(`Message to you from ${from_name ?? from}${proven === 'member' ? '' : ` (${proven})`}: ${body}`),
  );
  return { lines, until: items.at(-1)?.ts ?? after };
}

function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length <= textCharactersMax ? line : `${line.slice(0, textCharactersMax).toWellFormed()}…`;
}
