/** A port of messaging whose write verbs write at once, for tests that need rows rather than requests. */
import { operatorCaller } from '../../../core/caller.js';
import { type Step, type Writer, writeOne } from '../../../core/write.js';
import type { MessagingPort } from '../../port.js';

export type WrittenPort = {
  [Verb in keyof MessagingPort]: MessagingPort[Verb] extends (...given: infer Given) => Step<infer Result>
    ? (...given: Given) => Promise<Result>
    : MessagingPort[Verb];
};

export function writtenPort({ writer, port }: { writer: Writer; port: MessagingPort }): WrittenPort {
  const written = new Proxy(port, {
    get: (object, name) => {
      const member: unknown = Reflect.get(object, name, object);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]): unknown => {
        const result: unknown = Reflect.apply(member, object, given);
        return isStep(result) ? writeOne(writer, { caller: operatorCaller() }, result) : result;
      };
    },
  });
  // The proxy gives each write verb the type that `WrittenPort` says.
  return written as unknown as WrittenPort;
}

function isStep(result: unknown): result is Step<unknown> {
  return typeof result === 'object' && result !== null && 'map' in result && 'after' in result;
}
