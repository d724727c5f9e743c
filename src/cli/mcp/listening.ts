/** A `subscriptions/listen` that outlives its server: the client asked once, and gets one stream. */
import { setTimeout as sleep } from 'node:timers/promises';
import { readEvents } from '../connection/answers.js';
import { type Message, type SingleMessage, parsed } from './messages.js';

export interface ListeningOptions {
  message: SingleMessage;
  signal: AbortSignal;
  post(message: Message, signal: AbortSignal): Promise<Response>;
  /** Passes on an answer that is not a stream. */
  pass(response: Response): Promise<void>;
  write(line: string): void;
}

/** The wait after a server has ended a stream, before another one is opened. */
export const listenAgainMs = 1_000;
const subscriptionIdKey = 'io.modelcontextprotocol/subscriptionId';

interface Filter {
  resourceSubscriptions?: string[];
  resourcesListChanged?: boolean;
}

/** Ends when the client ends the request, or a server refuses it. */
export async function keepListening(options: ListeningOptions): Promise<void> {
  const { message, signal, post, pass } = options;
  let isAcknowledged = false;
  for (;;) {
    try {
      const response = await post(message, signal);
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
      if (!isStream && (!isAcknowledged || response.status < 500)) return await pass(response);
      if (!isStream) await response.body?.cancel();
      else if (response.body !== null)
        for await (const { event, data } of readEvents(response.body)) {
          if (event !== 'message' || data === '') continue;
          const fate = fateOf(parsed(data), message, isAcknowledged);
          if (fate === 'end') return options.write(data);
          if (fate === 'pass') options.write(data);
          if (fate === 'resumed') announce(options);
          isAcknowledged = true;
        }
    } catch (error) {
      if (signal.aborted || !isAcknowledged) throw error;
    }
    await sleep(listenAgainMs, undefined, { signal });
  }
}

type Fate =
  | 'pass'
  /** The client has its acknowledgement, and may have missed changes. */
  | 'resumed'
  /** The server is stopping: another one is asked. */
  | 'hide'
  | 'end';

function fateOf(said: Message | undefined, asked: SingleMessage, isAcknowledged: boolean): Fate {
  if (said === undefined || Array.isArray(said)) return 'pass';
  if (said.method === 'notifications/subscriptions/acknowledged') return isAcknowledged ? 'resumed' : 'pass';
  if (said.method !== undefined || said.id !== asked.id) return 'pass';
  // A stream without subscriptions ends at once. The end of any other stream means that its server ended.
  return said.result !== undefined && isAcknowledged && wantsSomething(filterOf(asked)) ? 'hide' : 'end';
}

function filterOf({ params }: SingleMessage): Filter {
  return ((params ?? {}) as { notifications?: Filter }).notifications ?? {};
}

function wantsSomething({ resourceSubscriptions = [], resourcesListChanged }: Filter): boolean {
  return resourceSubscriptions.length > 0 || resourcesListChanged === true;
}

function announce({ message, write }: ListeningOptions): void {
  const { resourceSubscriptions = [], resourcesListChanged } = filterOf(message);
  const tell = (method: string, params: object): void =>
    write(
      JSON.stringify({
        jsonrpc: '2.0',
        method,
        params: { ...params, _meta: { [subscriptionIdKey]: message.id } },
      }),
    );
  for (const uri of resourceSubscriptions) tell('notifications/resources/updated', { uri });
  if (resourcesListChanged === true) tell('notifications/resources/list_changed', {});
}
