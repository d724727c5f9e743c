/** Messaging as routes use it: signatures, rate limits, rooms and messages. */
import { StoaError } from '../core/errors.js';
import type { Writer } from '../core/write.js';
import type { Feed } from '../feed/port.js';
import type { Limits } from '../core/settings/limits.js';
import { AddressRanges } from './gate/addresses.js';
import { SignatureCheck } from './identities/authentication.js';
import { type AgentNames, Recipients } from './identities/recipients.js';
import { KnownAuthors } from './identities/standing.js';
import { Authors, type SecretSealer } from './identities/authors.js';
import { DirectMessages } from './messages/direct.js';
import { Drafts } from './messages/drafts.js';
import { Gate } from './gate/gate.js';
import { MessageHub } from './messages/hub.js';
import { Identities } from './identities/identities.js';
import type { Message, Totals } from './model.js';
import type { HealthCheck, MessagingPort } from './port.js';
import { RoomDoors } from './rooms/doors.js';
import { RoomKeys } from './rooms/keys.js';
import { Rooms } from './rooms/rooms.js';
import { MessagingSteps } from './steps.js';
import { agoInWords } from './rooms/totals.js';
import { canonicalUuid, globalRoomId } from './identities/uuid.js';

export interface MessagingSettings {
  /** Addresses and ranges that are exempt from rate limits and blocks. */
  rateLimitAllow: readonly string[];
  /** Proxies whose forwarding headers are used. */
  trustedProxies: readonly string[];
  autoBlock: boolean;
  /** The identity that may delete every message. */
  adminAgent: string | null;
  /** Refuse the four X-AICQ headers: only RFC 9421 signatures count. */
  requireMessageSignatures: boolean;
}

const messagingDefaults: MessagingSettings = {
  rateLimitAllow: [],
  trustedProxies: [],
  autoBlock: true,
  adminAgent: null,
  requireMessageSignatures: false,
};

export interface MessagingOptions {
  /** Runs the steps of `port`. Both belong to the same home. */
  writer: Writer;
  port: MessagingPort;
  limits: Limits;
  sealer: SecretSealer;
  feed: Feed;
  /** The agents of users, for messages to an agent by its name. Without it, recipients are ids. */
  agents?: AgentNames;
  settings?: Partial<MessagingSettings>;
}

export interface Stats {
  totals: Totals;
  lastActivity: string;
  recent: { message: Message; authorName: string }[];
}

const recentMessages = 5;
/** It has no owner, and its messages are kept for messageRetentionSeconds. */
const globalRoom = { id: globalRoomId, owner: null, retentionSeconds: null };

export class MessagingService {
  readonly writer: Writer;
  readonly port: MessagingPort;
  readonly limits: Limits;
  readonly settings: MessagingSettings;
  readonly proxies: AddressRanges;
  readonly signatures: SignatureCheck;
  readonly gate: Gate;
  readonly hub: MessageHub;
  readonly identities: Identities;
  readonly rooms: Rooms;
  readonly direct: DirectMessages;
  readonly steps: MessagingSteps;
  /** Who wrote messages, for readers that show how far an author is proven. */
  readonly authors: KnownAuthors;

  constructor({ writer, port, limits, sealer, feed, agents, settings }: MessagingOptions) {
    this.writer = writer;
    this.port = port;
    this.limits = limits;
    this.settings = { ...messagingDefaults, ...settings };
    this.proxies = new AddressRanges(this.settings.trustedProxies, 'STOA_TRUSTED_PROXIES');
    this.signatures = new SignatureCheck(port, limits);
    const allowed = new AddressRanges(this.settings.rateLimitAllow, 'STOA_RATE_LIMIT_ALLOW');
    this.gate = new Gate({ port, limits, allowed, autoBlock: this.settings.autoBlock });
    this.hub = new MessageHub(port);
    this.authors = new KnownAuthors(port);
    const { hub, signatures } = this;
    const { adminAgent, requireMessageSignatures } = this.settings;
    const authors = new Authors(port, sealer);
    const keys = new RoomKeys(port, limits);
    const doors = new RoomDoors(port, keys);
    const recipients = new Recipients({ port, authors, agents });
    const drafts = new Drafts({
      port,
      limits,
      doors,
      keys,
      authors,
      recipients,
      signatures,
      gate: this.gate,
      requireMessageSignatures,
    });
    const steps = new MessagingSteps({
      port,
      limits,
      authors,
      doors,
      drafts,
      keys,
      signatures,
      adminAgent: adminAgent === null ? null : adminOf(adminAgent),
    });
    this.steps = steps;
    this.identities = new Identities({ writer, port, limits, steps, recipients });
    this.rooms = new Rooms({ writer, port, limits, steps, doors, hub });
    this.direct = new DirectMessages({ writer, port, steps, authors, hub, feed });
  }

  async stats(): Promise<Stats> {
    const totals = await this.port.totals();
    const { items } = await this.port.messages(globalRoom, { beforeMs: null, limit: recentMessages });
    const names = await this.names(items.map(({ from }) => from));
    return {
      totals,
      lastActivity: agoInWords(totals.lastActivityAtMs, this.port.nowMs()),
      recent: items.map((message) => ({ message, authorName: names.get(message.from) ?? 'Unknown Agent' })),
    };
  }

  /** The names of identities, without those that have none. */
  async names(ids: readonly string[]): Promise<Map<string, string>> {
    const identities = await this.port.identities([...new Set(ids)]);
    return new Map(
      [...identities.values()].flatMap(({ id, name }) => (name === null ? [] : [[id, name] as const])),
    );
  }

  async health(): Promise<Readonly<Record<string, HealthCheck>>> {
    return this.port.health();
  }

  /** Ends streams and waits. The port stays open. */
  close(): void {
    this.hub.close();
    this.gate.close();
    this.signatures.close();
  }
}

/** The admin's id. Another text would match no identity and silently leave the server without an admin. */
function adminOf(setting: string): string {
  const id = canonicalUuid(setting);
  if (id === undefined)
    throw new StoaError(
      'invalid_config',
      `Invalid agent id "${setting}" in STOA_ADMIN_AGENT. Expected a UUID.`,
      { fix: 'Use the id that POST /register returned.' },
    );
  return id;
}
