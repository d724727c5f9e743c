/** Calls of tools that are harmless if the server gets them twice: reads, and writes that are the same again. */
import { type Message, methodOf } from './messages.js';

/** By tool: every call, or calls with these actions. */
const harmless: Readonly<Record<string, true | ReadonlySet<string>>> = {
  recall: true,
  list: true,
  read: true,
  find: true,
  agents: true,
  // The same holder gets the same lock again.
  lock: true,
  // The same answer is accepted again.
  tasks: new Set(['list', 'get', 'answer']),
  // The same report or question with the same fence is accepted again.
  work: new Set(['heartbeat', 'complete', 'fail', 'ask']),
};

export function isRepeatable(message: Message): boolean {
  const method = methodOf(message);
  if (method === undefined || Array.isArray(message)) return false;
  if (method !== 'tools/call') return true;
  const { name, arguments: input } = (message.params ?? {}) as {
    name?: unknown;
    arguments?: { action?: unknown };
  };
  const rule = typeof name === 'string' && Object.hasOwn(harmless, name) ? harmless[name] : undefined;
  if (rule === undefined || rule === true) return rule === true;
  return typeof input?.action === 'string' && rule.has(input.action);
}
