/** Limits of the HTTP server: requests, lists, streams and Idempotency-Keys. */
import { type LimitGroup, timerSecondsMax } from './definition.js';

export const serverLimits = {
  idleStopSeconds: {
    default: 600,
    setting: true,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds without a request or an open stream before a server that "stoa mcp" started stops.',
  },
  streamsMax: { default: 5_000, setting: true, about: 'Open event streams on one server.' },
  streamsPerCallerMax: {
    default: 2_000,
    about:
      'Open event streams of one user, one messaging identity, or one address without credentials. The ' +
      'operator is exempt.',
  },
  stopSecondsMax: {
    default: 30,
    setting: true,
    max: timerSecondsMax,
    about: 'Seconds that running requests get to finish when the server stops.',
  },
  bodyBytesMax: { default: 17 * 1024 * 1024, positive: true, about: 'Bytes in a request body.' },
  bodiesBytesMax: {
    default: 256 * 1024 * 1024,
    positive: true,
    about:
      'Bytes of all request bodies in memory. Beyond it, the connection whose body has been arriving longest is ' +
      'closed, and a request is refused while the bodies of running requests alone are as large.',
  },
  fieldErrorsMax: { default: 100, positive: true, about: 'Invalid fields listed in one error.' },
  jsonDepthMax: { default: 200, about: 'Nesting levels in a JSON body.' },
  jsonValuesMax: {
    default: 1_000_000,
    positive: true,
    about: 'Values in a JSON body. A list, an object and each member of an object count as four.',
  },
  listItemsMax: {
    default: 10_000,
    positive: true,
    about: 'Items in a list whose items are validated. Stored values are not counted.',
  },
  pageItemsDefault: {
    default: 100,
    positive: true,
    about: 'Items on a page of a list when the request has no limit.',
  },
  pageItemsMax: {
    default: 1_000,
    positive: true,
    about: 'Items on a page of a list. A higher limit in a request is lowered to this.',
  },
  pagesAtOnceMax: {
    default: 8,
    positive: true,
    about:
      'Pages of documents, of tasks and of search results, and batches of reads, that are made at the same time, of ' +
      'each kind. Others wait, and users take turns.',
  },
  headerBytesMax: { default: 16 * 1024, positive: true, about: 'Bytes in the headers of a request.' },
  requestSecondsMax: {
    default: 60,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds for a complete request to arrive.',
  },
  pathSegmentCharactersMax: { default: 8_192, about: 'Characters in one path parameter.' },
  streamBufferBytesMax: {
    default: 1024 * 1024,
    about: 'Bytes buffered for a slow stream reader before it gets a resync and is disconnected.',
  },
  streamStallSecondsMax: {
    default: 60,
    about: 'Seconds without progress before the reader of a stream or of an answer is disconnected.',
  },
  unreadAnswerBytesMax: {
    default: 256 * 1024 * 1024,
    positive: true,
    about:
      'Bytes of all answers that wait for slow readers. Beyond it, the reader of the oldest one is disconnected.',
  },
  pipelinedRequestsMax: {
    default: 1_000,
    about: 'Requests that wait on one connection for the answers to earlier ones. More are refused.',
  },
  streamHeartbeatSeconds: {
    default: 15,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds between comments on an idle stream.',
  },
  longPollSecondsMax: { default: 60, max: timerSecondsMax, about: 'Seconds that a long poll may wait.' },
  idempotencyKeyBytesMax: { default: 255, about: 'Bytes in an Idempotency-Key.' },
  idempotencyAnswerBytesMax: {
    default: 256 * 1024,
    positive: true,
    about: 'Bytes of a response stored for an Idempotency-Key. A request with a larger response is refused.',
  },
  idempotencySeconds: {
    default: 24 * 3600,
    about: 'Seconds that the response to an Idempotency-Key is kept.',
  },
  healthSecondsMax: {
    default: 3,
    positive: true,
    max: timerSecondsMax,
    about: 'Seconds after which /health reports a silent database.',
  },
} as const satisfies LimitGroup;
