/** Limits of rooms, direct messages and search. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const messagingLimits = {
  messageRetentionSeconds: {
    default: 24 * 3600,
    setting: true,
    positive: true,
    about: 'Seconds that a message stays in a public room and in the search.',
  },
  ownRoomRetentionSeconds: {
    default: 30 * 24 * 3600,
    setting: true,
    positive: true,
    about: 'Seconds that a message stays in a room of a user, unless the room has its own value.',
  },
  roomRetentionSecondsMax: {
    default: 10 * 365 * 24 * 3600,
    positive: true,
    about: 'The highest value that one room can have for how long its messages are kept, in seconds.',
  },
  ownRoomsMax: {
    default: 1_000,
    positive: true,
    about: 'Rooms of one user.',
  },
  directRetentionSeconds: {
    default: 7 * 24 * 3600,
    setting: true,
    positive: true,
    about: 'Seconds that a direct message is kept.',
  },
  messageBytesMax: { default: 4096, about: 'Bytes in a room message.' },
  directBytesMax: { default: 8192, about: 'Bytes in a direct message.' },
  messagingRequestBytesMax: {
    default: 64 * 1024,
    about:
      'Bytes in a request body on the messaging routes. Every valid message fits, however it is escaped.',
  },
  messageClockAheadSecondsMax: {
    default: 60,
    about:
      "Seconds that a message's time may be ahead of the clock before `stoa doctor` reports it. " +
      'Posting is never refused for this.',
  },
  messagesPageDefault: {
    default: 50,
    positive: true,
    about: 'Messages on a page of a room when the request has no limit.',
  },
  messagesPageMax: { default: 200, positive: true, about: 'Messages on a page of a room.' },
  channelsPageDefault: {
    default: 20,
    positive: true,
    about: 'Rooms on a page of the channel list when the request has no limit.',
  },
  channelsPageMax: { default: 100, positive: true, about: 'Rooms on a page of the channel list.' },
  directPageMax: { default: 100, positive: true, about: 'Direct messages on a page.' },
  threadMessagesMax: { default: 200, positive: true, about: 'Messages on a page of a thread.' },
  acknowledgedIdsMax: { default: 1_000, about: 'Direct messages acknowledged in one request.' },
  roomsPerStreamMax: { default: 50, about: 'Rooms in one event stream.' },
  searchQueryCharactersMax: { default: 100, about: 'Characters in a search query.' },
  searchResultsDefault: {
    default: 20,
    positive: true,
    about: 'Search results when the request has no limit.',
  },
  searchResultsMax: { default: 100, positive: true, about: 'Search results in one response.' },
  searchStepsMax: {
    default: 50_000,
    positive: true,
    about: 'Index entries read by one search. The response then has a cursor for the rest.',
  },
  searchRepairSeconds: {
    default: 300,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds between scans of a Redis cluster for messages that are missing from the search.',
  },
  identityKeysMax: {
    default: 4_000,
    positive: true,
    about: 'Keys in the history of one identity. The history is answered whole.',
  },
} as const satisfies LimitGroup;
