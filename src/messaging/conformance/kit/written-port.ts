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
  const atOnce =
    <Given extends unknown[], Result>(verb: (...given: Given) => Step<Result>) =>
    (...given: Given): Promise<Result> =>
      writeOne(writer, { caller: operatorCaller() }, verb(...given));
  return {
    ...port,
    keepFirst: atOnce((...given) => port.keepFirst(...given)),
    register: atOnce(port.register),
    updateProfile: atOnce(port.updateProfile),
    rotateKey: atOnce(port.rotateKey),
    link: atOnce(port.link),
    createRoom: atOnce(port.createRoom),
    updateRoom: atOnce(port.updateRoom),
    deleteRoom: atOnce(port.deleteRoom),
    post: atOnce(port.post),
    postOpening: atOnce(port.postOpening),
    deleteMessage: atOnce(port.deleteMessage),
    send: atOnce(port.send),
    acknowledge: atOnce(port.acknowledge),
    useNonce: atOnce(port.useNonce),
  };
}
