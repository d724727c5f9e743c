/** Long work over HTTP: an answer, or for a client that accepts events, its progress and then the answer. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Stoa } from '../../index.js';
import type { OnProgress, ProgressPhase } from '../../operations/model.js';
import type { EventStream, EventStreams } from './event-stream.js';
import { problemOf, stoaErrorOf } from './problem.js';
import { streaming } from '../route.js';

interface Asked {
  stoa: Stoa;
  request: FastifyRequest;
  reply: FastifyReply;
  streams: EventStreams;
}

/** Short enough for a progress bar. */
const stepIntervalMs = 100;

/**
 * The stream opens with the first step, so an earlier refusal has its own status. A client that
 * disconnects ends the events, not the work.
 */
export async function withProgress<Result>(
  { stoa, request, reply, streams }: Asked,
  work: (onProgress: OnProgress) => Promise<Result>,
): Promise<Result | typeof streaming> {
  if (request.headers.accept?.toLowerCase().includes('text/event-stream') !== true)
    return work(() => undefined);
  let stream: EventStream | undefined;
  let sentAtMs = -Infinity;
  let sentPhase: ProgressPhase | undefined;
  const onProgress: OnProgress = ({ done, total, phase }) => {
    const nowMs = performance.now();
    if (nowMs - sentAtMs < stepIntervalMs && phase === sentPhase) return;
    [sentAtMs, sentPhase] = [nowMs, phase];
    // If the server has too many streams, the work continues and is answered without events.
    if (stream === undefined && !streams.hasRoom) return;
    stream ??= streams.open(reply);
    stream.send({ event: 'progress', data: { done, total, phase } });
  };
  try {
    const result = await work(onProgress);
    if (stream === undefined) return result;
    stream.send({ event: 'done', data: result });
  } catch (thrown) {
    if (stream === undefined) throw thrown;
    const error = stoaErrorOf(thrown);
    if (error.code === 'internal') stoa.onError(thrown, `${request.method} ${request.url}`);
    stream.send({ event: 'error', data: problemOf(error, request.id) });
  }
  // The token of the caller may be looked up before the last event is sent.
  await stream.drained();
  stream.end();
  return streaming;
}
