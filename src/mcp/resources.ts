/** Keys and rooms as MCP resources: their URIs, their content, and the resources that a change affects. */
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { StoaError } from '../core/errors.js';
import { toDocument } from '../datastore/documents/seed-document.js';
import type { Change } from '../core/change.js';
import { canonicalRoomId } from '../messaging/identities/uuid.js';
import type { Room } from '../messaging/model.js';
import { roomNameOf } from '../messaging/names.js';
import { userOf } from '../messaging/rooms/visibility.js';
import { shownMessages } from './shown-messages.js';
import { decodeSegment, documentPath, encodeSegment } from '../core/text/path-segment.js';

export type Target =
  | { kind: 'document'; namespace: string; key: string }
  | { kind: 'namespace'; namespace: string }
  | { kind: 'room'; id: string };

export interface ListedResource {
  uri: string;
  name: string;
  title?: string;
  mimeType: string;
  size?: number;
  [other: string]: unknown;
}

export const resourceTemplates = [
  {
    uriTemplate: 'stoa://data/{namespace}',
    name: 'namespace',
    title: 'Keys of a namespace',
    mimeType: 'application/json',
    description: 'The keys with their versions. Updated with every change of a key.',
  },
  {
    uriTemplate: 'stoa://data/{namespace}/{key}',
    name: 'key',
    title: 'A remembered value',
    mimeType: 'application/json',
    description: 'The value with version, metadata and who wrote it.',
  },
  {
    uriTemplate: 'stoa://rooms/{id}',
    name: 'room',
    title: 'A room',
    mimeType: 'application/json',
    description: 'The newest messages. Updated with every message.',
  },
];

const pattern = /^stoa:\/\/(data|rooms)\/([^/?#]+)(?:\/([^/?#]+))?$/;

/** The resource of a URI in any spelling; undefined for a URI that is not Stoa's. */
export function targetOf(uri: string): Target | undefined {
  const [, kind, first, second] = pattern.exec(uri) ?? [];
  const [one, two] = [first, second].map((segment) => (segment === undefined ? undefined : decoded(segment)));
  if (one === undefined || (second !== undefined && two === undefined)) return undefined;
  if (kind === 'data')
    return two === undefined
      ? { kind: 'namespace', namespace: one }
      : { kind: 'document', namespace: one, key: two };
  const id = two === undefined ? canonicalRoomId(one) : undefined;
  return id === undefined ? undefined : { kind: 'room', id };
}

/** The spelling of the URI in lists and notifications. */
export function uriOf(target: Target): string {
  switch (target.kind) {
    case 'document':
      return `stoa://data/${documentPath(target.namespace, target.key)}`;
    case 'namespace':
      return `stoa://data/${encodeSegment(target.namespace)}`;
    case 'room':
      return `stoa://rooms/${target.id}`;
  }
}

/** The resources that a change of the feed affects. */
export function touchedBy({ domain, kind, facts }: Change): Target[] {
  const { namespace, key, room } = facts ?? {};
  if (domain === 'data' && typeof namespace === 'string') {
    return [
      { kind: 'namespace', namespace },
      ...(typeof key === 'string' ? [{ kind: 'document' as const, namespace, key }] : []),
    ];
  }
  return domain === 'messaging' && kind.startsWith('message.') && typeof room === 'string'
    ? [{ kind: 'room', id: room }]
    : [];
}

/** Whether a change affects the list of resources. */
export function changesList({ domain, kind, version }: Change): boolean {
  if (domain === 'data') return version === 1 || kind !== 'document.set';
  return domain === 'messaging' && kind === 'room.created';
}

export async function readResource(stoa: Stoa, caller: Caller, target: Target): Promise<object | undefined> {
  switch (target.kind) {
    case 'document': {
      const found = await stoa.data.getRecord(caller, target.namespace, target.key);
      return found === undefined ? undefined : toDocument(found);
    }
    case 'namespace':
      return { namespace: target.namespace, ...(await stoa.data.listKeys(caller, target.namespace)) };
    case 'room': {
      const { rooms, limits } = stoa.messaging;
      const access = { key: undefined, address: `mcp ${caller.user}` };
      const room = await rooms.enter(caller, { room: target.id, byName: false }, access);
      const page = await rooms.read(
        room,
        { beforeMs: null, limit: limits.messagesPageDefault },
        0,
        AbortSignal.timeout(0),
      );
      const messages = await shownMessages(stoa, caller, page.items.toReversed());
      return { room: { id: room.id, name: room.name }, messages, has_more: page.hasMore };
    }
  }
}

/** A type, not an interface: only a type fits the open answers of MCP. */
type ResourcePage = { resources: ListedResource[]; nextCursor?: string };

/**
 * A page of all resources: first the user's rooms, then public rooms, then each namespace with its keys. The
 * cursor is the last position.
 */
export async function listResources(
  stoa: Stoa,
  caller: Caller,
  cursor: string | undefined,
): Promise<ResourcePage> {
  const at = decodePlace(cursor);
  switch (at.section) {
    case 'own':
      return ownRooms(stoa, userOf(caller), at.after);
    case 'rooms':
      return publicRooms(stoa, at.offset);
    case 'data':
      return documents(stoa, caller, at);
  }
}

async function ownRooms(stoa: Stoa, owner: string | null, afterName: string | null): Promise<ResourcePage> {
  const most = stoa.limits.mcpResourcesListed;
  const after = owner === null || afterName === null ? null : { owner, name: afterName };
  const rooms = owner === null ? [] : await stoa.messaging.rooms.own(owner, after, most);
  const last = rooms.length < most ? undefined : rooms.at(-1);
  return {
    resources: rooms.map(listedRoom),
    nextCursor: encodePlace(
      last === undefined ? { section: 'rooms', offset: 0 } : { section: 'own', after: last.name },
    ),
  };
}

async function publicRooms(stoa: Stoa, from: number): Promise<ResourcePage> {
  const { rooms, total } = await stoa.messaging.rooms.channels(stoa.limits.mcpResourcesListed, from);
  const offset = from + rooms.length;
  return {
    resources: rooms.map(listedRoom),
    nextCursor: encodePlace(
      rooms.length > 0 && offset < total
        ? { section: 'rooms', offset }
        : { section: 'data', namespaces: null, keys: null },
    ),
  };
}

/** Some keys of one namespace, before the first of them the namespace itself. */
async function documents(
  stoa: Stoa,
  caller: Caller,
  at: Extract<Place, { section: 'data' }>,
): Promise<ResourcePage> {
  const namespaces = await stoa.data.listNamespaces(caller, {
    limit: 1,
    ...(at.namespaces !== null && { cursor: at.namespaces }),
  });
  const namespace = namespaces.items[0]?.namespace;
  if (namespace === undefined) return { resources: [] };
  const keys = await stoa.data.listKeys(caller, namespace, {
    limit: stoa.limits.mcpResourcesListed,
    ...(at.keys !== null && { cursor: at.keys }),
  });
  const resources: ListedResource[] = keys.items.map(({ key, sizeBytes }) => ({
    uri: uriOf({ kind: 'document', namespace, key }),
    name: key,
    title: `${namespace}: ${key}`,
    mimeType: 'application/json',
    size: sizeBytes,
  }));
  if (at.keys === null)
    resources.unshift({
      uri: uriOf({ kind: 'namespace', namespace }),
      name: namespace,
      title: `Keys of ${namespace}`,
      mimeType: 'application/json',
    });
  if (keys.next_cursor !== null)
    return { resources, nextCursor: encodePlace({ ...at, keys: keys.next_cursor }) };
  return namespaces.next_cursor === null
    ? { resources }
    : {
        resources,
        nextCursor: encodePlace({ section: 'data', namespaces: namespaces.next_cursor, keys: null }),
      };
}

function listedRoom({ id, name }: Room): ListedResource {
  return { uri: uriOf({ kind: 'room', id }), name, title: `Room ${name}`, mimeType: 'application/json' };
}

type Place =
  | { section: 'own'; after: string | null }
  | { section: 'rooms'; offset: number }
  | { section: 'data'; namespaces: string | null; keys: string | null };

function encodePlace(place: Place): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

function decodePlace(cursor: string | undefined): Place {
  if (cursor === undefined) return { section: 'own', after: null };
  const place = parsed(Buffer.from(cursor, 'base64url').toString()) as
    | Partial<Record<'section' | 'offset' | 'after' | 'namespaces' | 'keys', unknown>>
    | null
    | undefined;
  if (place?.section === 'own' && typeof place.after === 'string' && roomNameOf(place.after) !== undefined)
    return { section: 'own', after: place.after };
  if (place?.section === 'rooms' && Number.isSafeInteger(place.offset) && Number(place.offset) >= 0)
    return { section: 'rooms', offset: Number(place.offset) };
  if (place?.section !== 'data')
    throw new StoaError('invalid_cursor', 'The cursor does not belong to this list.', {
      fix: 'Send nextCursor from the previous response, or leave the cursor out.',
    });
  return {
    section: 'data',
    namespaces: typeof place.namespaces === 'string' ? place.namespaces : null,
    keys: typeof place.keys === 'string' ? place.keys : null,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function decoded(segment: string): string | undefined {
  try {
    return decodeSegment(decodeURIComponent(segment));
  } catch {
    return undefined;
  }
}
