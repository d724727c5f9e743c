/** Wrong room keys. */
import { type TestRunner } from '../../../core/test-runner.js';
import { type Backend, roomy, onServer } from '../kit/server.js';
import { secret } from '../kit/requests.js';

export function roomKeyTests({ describe, expect, it }: TestRunner, backend: Backend): void {
  describe(`room keys on ${backend.name}`, () => {
    it('are limited in wrong guesses, also concurrent ones; a right key is never counted', async () => {
      await onServer(backend, { limits: { ...roomy, roomKeyGuessesPerMinuteMax: 3 } }, async (server) => {
        const ann = await server.agent();
        const rooms = await Promise.all(
          Array.from({ length: 5 }, (_, index) => server.room(ann, `den${index}`, `${secret} ${index}`)),
        );
        const open = (room: number, key: string) =>
          server.get(`/room/${rooms[room] as string}`, { 'x-aicq-room-key': key });
        const right = await Promise.all(
          Array.from({ length: 20 }, (_, index) => open(index % 5, `${secret} ${index % 5}`)),
        );
        expect(right.map(({ status }) => status)).toEqual(right.map(() => 200));
        const wrong = await Promise.all(
          Array.from({ length: 20 }, (_, index) => open(index % 5, `${secret} number ${index}`)),
        );
        expect(wrong.filter(({ status }) => status === 403)).toHaveLength(3);
        expect(wrong.filter(({ status }) => status === 429)).toHaveLength(17);
      });
    });
  });
}
