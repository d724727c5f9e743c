/**
 * A client that works on one repository: calls that name no namespace, project or room mean those of the
 * repository, and names of locks begin with it.
 */
import type { Message, SingleMessage } from './messages.js';

type Input = Record<string, unknown>;

const memoryTools: ReadonlySet<string> = new Set(['remember', 'recall', 'forget']);
const taskTools: ReadonlySet<string> = new Set(['tasks', 'work']);
const roomTools: ReadonlySet<string> = new Set(['post', 'read']);

export function scoped(message: Message, scope: string): Message {
  return Array.isArray(message) ? message.map((one) => scopedCall(one, scope)) : scopedCall(message, scope);
}

function scopedCall(message: SingleMessage, scope: string): SingleMessage {
  const { params } = message;
  if (message.method !== 'tools/call' || !isObject(params)) return message;
  const { name, arguments: given = {} } = params;
  if (typeof name !== 'string' || !isObject(given)) return message;
  return { ...message, params: { ...params, arguments: scopedInput(name, given, scope) } };
}

function scopedInput(tool: string, input: Input, scope: string): Input {
  if (memoryTools.has(tool)) return { namespace: scope, ...input };
  if (taskTools.has(tool)) return { project: scope, ...input };
  if (roomTools.has(tool) && input['to'] === undefined && input['inbox'] !== true)
    return { room: roomOf(scope), ...input };
  if (tool === 'lock') return { ...input, ...lockNameOf(input, scope) };
  if (tool === 'commit' && Array.isArray(input['operations']))
    return {
      ...input,
      operations: input['operations'].map((operation: unknown) => scopedPart(operation, 'op', scope)),
      ...(Array.isArray(input['checks']) && {
        checks: input['checks'].map((check: unknown) => scopedPart(check, 'check', scope)),
      }),
    };
  return input;
}

/** An operation or a check of a commit. */
function scopedPart(part: unknown, kindField: 'op' | 'check', scope: string): unknown {
  if (!isObject(part) || typeof part[kindField] !== 'string') return part;
  const [domain] = part[kindField].split('.');
  if (domain === 'data') return { namespace: scope, ...part };
  if (domain === 'lock') return { ...part, ...lockNameOf(part, scope) };
  if (part[kindField] === 'task.create' || part[kindField] === 'task.claim')
    return 'session_id' in part || 'project_id' in part ? part : { project: scope, ...part };
  return part[kindField] === 'room.post' ? { room: roomOf(scope), ...part } : part;
}

/** A room has no slash in its name. */
export function roomOf(scope: string): string {
  return scope.replaceAll('/', '-');
}

export function lockName(scope: string, name: string): string {
  return name.startsWith(`${scope}/`) ? name : `${scope}/${name.replace(/^(?:\.\/)+/, '')}`;
}

function lockNameOf({ name, action }: Input, scope: string): { name: string } | undefined {
  if (typeof name === 'string') return { name: lockName(scope, name) };
  return action === 'list' ? { name: `${scope}/` } : undefined;
}

function isObject(value: unknown): value is Input {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
