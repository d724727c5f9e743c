/**
 * `stoa hook start|prompt|tool`: what an agent should know now, for the hooks of agent programs, whose output
 * the agent reads. It never fails and never starts a server: a hook must not stop the agent.
 */
import { defaultUser } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import type { Connection } from '../connection/connection.js';
import { type Action, textOption } from '../definitions/definition.js';
import { hookAnswer } from '../hook/answer.js';
import { type Conversation, Conversations } from '../hook/conversations.js';
import { ownName, readEvent } from '../hook/event.js';
import { roomOf } from '../mcp/scope.js';
import { printableLines } from '../output/printable.js';

/** Shown of each list. */
const itemsMax = 5;
const textCharactersMax = 200;
/** Locks of the repository that a hook reads. */
const locksRead = 50;
/** The first prompt of a conversation shows the locks of this time; later prompts show new ones. */
const recentMs = 15 * 60 * 1000;

export const hook: Action = async ({ connect, globals }, [event = 'start'], options) => {
  const scope = textOption(options, 'scope') ?? 'default';
  let said = '';
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
    if (event === 'start') said = startText(scope, agent);
    // Called in the name of the agent, which renews its presence. The token of the directory is the
    // operator's: without --user it acts for the same user as MCP does. Another token may belong to a user.
    const user = textOption(globals, 'token') === undefined ? defaultUser : undefined;
    const connection = await connect('refused', { agent, user });
    const news = await newsOf(connection, { event, scope, agent, since: known?.told_until });
    const messages = known === undefined ? undefined : await messagesTo(connection, known);
    if (id !== undefined && known !== undefined)
      await conversations.note(id, {
        ...known,
        read_until: messages?.until ?? known.read_until,
        told_until: news.until,
      });
    const lines = [...(messages?.lines ?? []), ...news.lines];
    if (lines.length > 0) said += `${event === 'start' ? '' : 'Stoa: '}${lines.join('\n')}\n`;
  } catch {
    // Whatever failed must not stop the agent. Mostly no server runs yet; the MCP server starts one.
  }
  if (said !== '')
    process.stdout.write(hookAnswer(textOption(options, 'program'), event, printableLines(said)));
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

interface NewsFor {
  event: string;
  scope: string;
  /** The agent itself, whose own locks are not news. */
  agent: string | undefined;
  /** A prompt shows locks that were taken, and answers that were given, after this time. */
  since: string | undefined;
}

/** Answers to questions of the agent's tasks that no hook has shown yet. */
async function answersTo(
  connection: Connection,
  agent: string | undefined,
  since: string,
): Promise<{ line: string; at: string }[]> {
  if (agent === undefined) return [];
  const { items } = await connection.call('tasks.list', { holder: agent, status: 'running', limit: 50 });
  return items.flatMap(({ id, answer, answered_at: at, answered_by: by }) =>
    answer === null || at === null || at <= since
      ? []
      : [{ line: cut(`${by} answered your question about ${id}: ${answer}`), at }],
  );
}

/**
 * Answers to the agent, which other agents are here and what they have locked; at the start also which tasks
 * of the repository are open. A prompt without news says nothing.
 */
async function newsOf(
  connection: Connection,
  { event, scope, agent, since }: NewsFor,
): Promise<{ lines: string[]; until: string }> {
  const start = since ?? new Date(Date.now() - recentMs).toISOString();
  const [agents, locks, tasks, answers] = await Promise.all([
    connection.call('agents.list', { limit: 50 }),
    connection.call('locks.list', { prefix: `${scope}/`, limit: locksRead }),
    event === 'start' ? openTasks(connection, scope) : [],
    answersTo(connection, agent, start),
  ]);
  const others = locks.items.filter(({ holder }) => holder !== agent);
  const recent = others.filter(({ acquired_at }) => event === 'start' || acquired_at > start);
  const told = [...others.map(({ acquired_at }) => acquired_at), ...answers.map(({ at }) => at)];
  const until = [start, ...told].toSorted().at(-1) ?? start;
  const answered = shortened(
    answers.map(({ line }) => line),
    'answers to your questions',
  );
  if (event !== 'start' && recent.length === 0) return { lines: answered, until };
  const live = agents.items
    .filter(({ name, presence }) => presence === 'live' && name !== agent)
    .map(({ name }) => name);
  const lines = [
    ...answered,
    ...(live.length === 0 ? [] : [`Other agents that are here: ${live.slice(0, itemsMax * 2).join(', ')}.`]),
    ...shortened(
      recent.map(({ name, holder, note }) => cut(`${holder} has locked ${name}${note && ` (${note})`}.`)),
      'locks',
    ),
    ...tasks.map(({ id, command }) => cut(`Open task ${id}: ${command}`)),
  ];
  return { lines, until };
}

/** The tasks of the repository that wait for an agent. */
async function openTasks(connection: Connection, scope: string): Promise<{ id: string; command: string }[]> {
  try {
    return (await connection.call('tasks.list', { project: scope, status: 'pending', limit: itemsMax }))
      .items;
  } catch (error) {
    // A repository without tasks has no project yet.
    if (error instanceof StoaError && error.code === 'not_found') return [];
    throw error;
  }
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

/** The first lines of a list, and how many more there are: the next hook does not show them. */
function shortened(lines: readonly string[], what: string): string[] {
  const more = lines.length - itemsMax;
  return more <= 0 ? [...lines] : [...lines.slice(0, itemsMax), `There are ${more} more ${what}.`];
}

function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ');
  return line.length <= textCharactersMax ? line : `${line.slice(0, textCharactersMax).toWellFormed()}…`;
}
