/** RFC 9421 signatures that a hostile client changed, on every backend. */
import type { TestRunner } from '../../../core/test-runner.js';
import type { Backend, Agent, MessagingServer } from '../kit/server.js';

const said = '{"body":"x"}';
const bare = ['@method', '@target-uri'];
const tooLate = [401, { error: 'timestamp expired or too far in future' }];
const unreadable = [401, { error: 'invalid signature-input header' }];
const uncovered = [
  401,
  { error: 'signature must cover @method, @target-uri and the content-digest of a body' },
];

export function messageSignatureTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`RFC 9421 signatures on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open();
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    const read = async (headers: Record<string, string>, path = '/dm') =>
      refusalOf(await server.get(path, headers));
    const readWith = (options: { created?: number; more?: string }) =>
      read(ann.messageSignature('GET', '/dm', '', { components: bare, ...options }));
    const post = async (headers: Record<string, string>) =>
      refusalOf(await server.ask('POST', '/room/global', { raw: said, headers }));
    const signPost = (body: string, components?: string[]) =>
      ann.messageSignature('POST', '/room/global', body, { ...(components !== undefined && { components }) });

    it('expire at their own time, and never later than the allowed window', async () => {
      const nowSeconds = Math.floor(Date.now() / 1000);
      expect((await readWith({ more: `;expires=${nowSeconds + 60}` }))[0]).toBe(200);
      expect(await readWith({ more: `;expires=${nowSeconds - 1}` })).toEqual(tooLate);
      expect(await readWith({ more: ';expires="soon"' })).toEqual(tooLate);
      expect(await readWith({ created: nowSeconds - 31, more: `;expires=${nowSeconds + 600}` })).toEqual(
        tooLate,
      );
      expect(await readWith({ created: nowSeconds + 15 })).toEqual(tooLate);
    });

    it('are refused if a label has two signatures', async () => {
      const [one, two] = [1, 2].map(() => ann.messageSignature('GET', '/dm', '', { components: bare })) as [
        Signed,
        Signed,
      ];
      expect(
        await read({
          'signature-input': `${one['signature-input']}, ${two['signature-input']}`,
          signature: `${one.signature}, ${two.signature}`,
        }),
      ).toEqual(unreadable);
      expect(await read({ ...one, signature: `${one.signature}, ${two.signature}` })).toEqual(unreadable);
      expect(await read({ ...one, signature: one.signature.replace('sig1', 'sig2') })).toEqual(unreadable);
      expect(
        (
          await read({
            'signature-input': `proxy=("@method"), ${one['signature-input']}`,
            signature: `proxy=:AAAA:, ${one.signature}`,
          })
        )[0],
      ).toBe(200);
    });

    it('are valid only for the exact path and query that were signed', async () => {
      const path = '/dm?limit=5&verify=1';
      const signed = () => ann.messageSignature('GET', path, '', { components: bare });
      expect((await read(signed(), path))[0]).toBe(200);
      for (const other of [
        '/dm?verify=1&limit=5',
        '/dm?limit=5&verify=1&x',
        '/dm?limit=%35&verify=1',
        '/%64m?limit=5&verify=1',
        '/dm',
        '/dm?limit=6&verify=1',
      ]) {
        expect(await read(signed(), other), other).toEqual([401, { error: 'invalid signature' }]);
      }
    });

    it('are refused if a body was added to a request that was signed without one', async () => {
      const { 'content-digest': _, ...undigested } = signPost(said, bare);
      expect(await post(signPost('', bare))).toEqual(uncovered);
      expect(await post(undigested)).toEqual(uncovered);
      const { 'content-digest': __, ...cut } = signPost(said);
      expect(await post(cut)).toEqual([401, { error: 'content-digest does not match the body' }]);
      expect(await post({ ...signPost(said), 'content-digest': 'md5=:AAAA:' })).toEqual([
        401,
        { error: 'content-digest does not match the body' },
      ]);
    });

    for (const host of ['[', 'a b', 'x:99999999', '', '%', 'x@y'])
      it(`under the host "${host}" are refused, and no fault of the server`, async () => {
        const { 'signature-input': input, signature } = ann.messageSignature('GET', '/dm', '', {
          url: 'http://elsewhere',
          components: [...bare, '@authority'],
        }) as Signed;
        const answer = await server.talk(
          `GET /dm HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nSignature-Input: ${input}\r\nSignature: ${signature}\r\n\r\n`,
        );
        expect(answer).toMatch(/^HTTP\/1\.1 401 /);
      });
  });
}

type Signed = Record<'signature-input' | 'signature', string>;

function refusalOf({ status, json }: { status: number; json: unknown }): [number, unknown] {
  return [status, json];
}
