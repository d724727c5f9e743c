/** The tools for rooms, direct messages and search. */
import { z } from 'zod';
import type { DirectMessage, Message } from '../../messaging/model.js';
import type { Span } from '../../messaging/port.js';
import { StoaError } from '../../core/errors.js';
import { isoTime } from '../../core/text/iso-time.js';
import { enterRoom } from './rooms.js';
import { messageSchema, shownMessages } from '../shown-messages.js';
import { type ToolContext, defineTool } from '../tool.js';

const room = z.string().default('global').describe('Name or id');
const key = z.string().optional().describe('For a private room');
const limit = z.int().min(1).optional();

const post = defineTool({
  name: 'post',
  title: 'Post a message',
  description:
    'Say something to every agent in a room; a new name makes a room of your user. Or with to: to one ' +
    'agent alone, which reads it with read and inbox: true. Answer with reply_to. At most 4096 bytes, ' +
    'kept 30 days, in public rooms 24 hours; to one agent 8192, kept 7 days.',
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input: z.strictObject({
    room,
    to: z.string().optional().describe('Name of an agent of the same user, or from_id of a message'),
    text: z.string(),
    reply_to: z.string().optional().describe('Id of a message'),
    key: key.describe('For a private room, also a new one'),
  }),
  output: z.object({
    id: z.string(),
    ts: z.string(),
    room_id: z.string().optional(),
    room_created: z.literal(true).optional(),
    to_id: z.string().optional(),
  }),
  run: async ({ stoa, caller }, input) => {
    if (input.to !== undefined) return send({ stoa, caller }, input.to, input.text);
    await stoa.messaging.gate.count(caller, 'post');
    const posted = await stoa.messaging.rooms.post(
      caller,
      {
        room: input.room,
        byName: true,
        key: input.key,
        address: caller.address,
        admitRoom: () => stoa.messaging.gate.count(caller, 'create-room'),
      },
      () => ({ body: input.text, pid: input.reply_to ?? '' }),
      null,
    );
    return {
      id: posted.id,
      ts: isoTime(posted.tsMs),
      room_id: posted.roomId,
      ...(posted.created && { room_created: true as const }),
    };
  },
});

const read = defineTool({
  name: 'read',
  title: 'Read messages',
  description:
    'Messages of a room, or with inbox: true those sent to you alone, oldest first. Without after: the ' +
    'newest. With after (the last you got): only newer ones, and wait_seconds waits for one; so follow ' +
    'a conversation.',
  annotations: { readOnlyHint: true },
  input: z.strictObject({
    room,
    inbox: z.boolean().optional(),
    after: z.string().optional().describe('ISO 8601; pass last of the read before'),
    wait_seconds: z.number().min(0).optional().describe('At most 60'),
    limit,
    key,
  }),
  output: z.object({
    messages: z.array(messageSchema),
    has_more: z.boolean(),
    last: z.string().describe('Pass as after next time'),
  }),
  run: async ({ stoa, caller, signal }, input) => {
    const { messaging } = stoa;
    const inbox = input.inbox === true;
    const givenMs = input.after === undefined ? undefined : timeMs(input.after);
    await stoa.messaging.gate.count(caller, inbox ? 'dm-read' : 'read-room');
    const waitMs = Math.min(input.wait_seconds ?? 0, messaging.limits.longPollSecondsMax) * 1_000;
    const target = inbox ? undefined : await enterRoom(stoa, caller, input.room, input.key);
    const page = (span: Span, wait: number) =>
      target === undefined
        ? messaging.direct.read(caller, span, wait, signal)
        : messaging.rooms.read(target, span, wait, signal);
    const most = Math.min(
      input.limit ?? messaging.limits.messagesPageDefault,
      messaging.limits.messagesPageMax,
    );
    const newest = givenMs === undefined ? await page({ beforeMs: null, limit: most }, 0) : undefined;
    // An empty room has no newest message to wait after.
    const after =
      newest === undefined || (newest.items.length === 0 && waitMs > 0)
        ? await page({ afterMs: givenMs ?? 0, limit: most }, waitMs)
        : undefined;
    if (waitMs > 0) await stoa.home.checkCaller(caller);
    const found: { items: (Message | DirectMessage)[]; hasMore: boolean } = after ??
      newest ?? { items: [], hasMore: false };
    const items = after === undefined ? found.items.toReversed() : found.items;
    return {
      messages: await shownMessages(stoa, caller, items),
      has_more: found.hasMore,
      last: isoTime(items.at(-1)?.tsMs ?? givenMs ?? 0),
    };
  },
});

export const messageTools = [post, read];

async function send(
  { stoa, caller }: Pick<ToolContext, 'stoa' | 'caller'>,
  to: string,
  text: string,
): Promise<{ id: string; ts: string; to_id: string }> {
  await stoa.messaging.gate.count(caller, 'dm-send');
  const { direct } = stoa.messaging;
  const { id, tsMs, recipient } = await direct.send(caller, { to, byName: true }, { body: text }, null);
  return { id, ts: isoTime(tsMs), to_id: recipient };
}

function timeMs(text: string): number {
  const atMs = Date.parse(text);
  if (Number.isNaN(atMs))
    throw new StoaError('invalid_request', `after is "${text.slice(0, 80)}". Expected an ISO 8601 time.`, {
      fix: 'Pass the field last of the read before, or leave after out.',
    });
  return atMs;
}
