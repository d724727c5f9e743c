/** Rate limits, by caller, agent or address, and the blocks that follow from them. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const rateLimits = {
  requestsPerMinuteMax: {
    default: 0,
    setting: true,
    about: 'Requests per minute to /v1 and /mcp from one caller, over all servers; 0 means no limit.',
  },
  addressRequestsPerMinuteMax: {
    default: 1_200,
    setting: true,
    positive: true,
    about: 'Requests per minute to the messaging routes from one address, before signatures are checked.',
  },
  registrationsPerHourMax: {
    default: 10,
    setting: true,
    about: 'Registrations per hour from one address; 0 refuses all.',
  },
  roomsCreatedPerHourMax: {
    default: 10,
    setting: true,
    about: 'Rooms created per hour by one agent; 0 refuses all.',
  },
  postsPerMinuteMax: {
    default: 30,
    setting: true,
    about: 'Room messages per minute from one agent; 0 refuses all.',
  },
  messageBytesPerMinuteMax: {
    default: 32_768,
    setting: true,
    about: 'Bytes of room messages per minute from one agent; 0 refuses all.',
  },
  directSendsPerMinuteMax: {
    default: 60,
    setting: true,
    about: 'Direct messages per minute from one agent; 0 refuses all.',
  },
  profileReadsPerMinuteMax: { default: 100, about: 'Profile reads per minute from one address.' },
  profileChangesPerHourMax: {
    default: 10,
    about: 'Profile changes and key rotations per hour by one agent.',
  },
  channelReadsPerMinuteMax: { default: 60, about: 'Channel list reads per minute from one address.' },
  searchesPerMinuteMax: { default: 30, about: 'Searches per minute from one address.' },
  roomReadsPerMinuteMax: { default: 120, about: 'Room reads per minute by one agent.' },
  deletesPerMinuteMax: { default: 30, about: 'Messages deleted per minute by one agent.' },
  directReadsPerMinuteMax: { default: 60, about: 'Inbox reads per minute by one agent.' },
  roomKeyGuessesPerMinuteMax: { default: 10, about: 'Wrong room keys per minute from one address.' },
  namedAgentBudgetsMax: {
    default: 10,
    about: "Rate-limit budgets for distinct agent names used with one user's tokens.",
  },
  violationsPerHourMax: {
    default: 10,
    about: 'Requests refused by rate limits per hour before an address is blocked.',
  },
  blockSeconds: { default: 24 * 3600, about: 'Seconds that an address is blocked.' },
  rateWindowsKeptMax: {
    default: 10_000,
    about: 'Messaging rate windows that the data directory keeps over a restart.',
  },
  rateWindowsKeptEverySeconds: {
    default: 5,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds between writes of changed rate windows. A crash forgets at most this much.',
  },
} as const satisfies LimitGroup;
