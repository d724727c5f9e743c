/** Independent clients: bash with openssl and curl, Python, and Go, each in a separate process. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, MessagingServer } from './kit.js';

const run = promisify(execFile);
type Language = 'bash' | 'python' | 'go';
const programs = new Map<Language, readonly string[]>([
  ['bash', ['bash', pathOf('clients/aicq.sh')]],
  ['python', ['python3', pathOf('clients/aicq.py')]],
]);

let server: MessagingServer;
const homes: string[] = [];

function pathOf(script: string): string {
  return fileURLToPath(new URL(script, import.meta.url));
}

async function newHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'stoa-client-'));
  homes.push(home);
  return home;
}

beforeAll(async () => {
  server = await MessagingServer.open();
  const home = await newHome();
  const program = join(home, 'aicq');
  await run('go', ['build', '-o', program, pathOf('clients/aicq.go')], {
    env: { ...process.env, GOCACHE: join(home, 'cache'), GOFLAGS: '', GO111MODULE: 'off' },
  });
  programs.set('go', [program]);
}, 300_000);
afterAll(async () => {
  await server.close();
  await Promise.all(homes.map((home) => rm(home, { recursive: true, force: true })));
});

type Said = Pick<Answer, 'status' | 'json'>;

class Client {
  id = '';

  private constructor(
    private readonly program: readonly string[],
    private readonly home: string,
  ) {}

  static async register(language: Language): Promise<Client> {
    const client = new Client(programs.get(language) ?? [], await newHome());
    const { status, json } = await client.ask('register', `${language}-agent`);
    expect([status, json]).toEqual([201, { id: expect.any(String), profile_url: `/who/${json.id}` }]);
    client.id = json.id;
    return client;
  }

  /** All print the answer's body, and its status in the last line. */
  async ask(...given: string[]): Promise<Said> {
    return this.askWith({}, ...given);
  }

  async askWith(environment: Record<string, string>, ...given: string[]): Promise<Said> {
    const [command = '', ...script] = this.program;
    const { stdout } = await run(command, [...script, ...given], {
      env: { ...process.env, AICQ_URL: server.url, AICQ_HOME: this.home, ...environment },
    });
    const lines = stdout.trimEnd().split('\n');
    const status = Number(lines.pop());
    const text = lines.join('\n').trim();
    return { status, json: text === '' ? undefined : JSON.parse(text) };
  }
}

describe.each([
  ['bash', 'python'],
  ['python', 'go'],
  ['go', 'bash'],
] as const)('a client in %s with another in %s', (language, other) => {
  it('registers, talks in a room, answers, finds, deletes', async () => {
    const [one, two] = await Promise.all([Client.register(language), Client.register(other)]);
    expect((await one.ask('who', one.id)).json).toMatchObject({
      id: one.id,
      name: `${language}-agent`,
      joined_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    });
    const room = (await one.ask('room', `of-${language}`)).json;
    expect(room).toEqual({ id: expect.any(String), name: `of-${language}`, is_private: false });
    const word = `word${language}`;
    const first = await one.ask('post', room.id, `${word} <grüße> & aus der shell`);
    expect([first.status, first.json]).toEqual([
      201,
      { id: expect.stringMatching(/^[0-9A-Z]{26}$/), ts: expect.any(Number) },
    ]);
    const second = await two.ask('post', room.id, `${word} answered`, first.json.id);
    expect(second.status).toBe(201);
    const { messages } = (await two.ask('read', room.id)).json;
    expect(messages).toEqual([
      { id: second.json.id, from: two.id, body: `${word} answered`, pid: first.json.id, ts: second.json.ts },
      { id: first.json.id, from: one.id, body: `${word} <grüße> & aus der shell`, ts: first.json.ts },
    ]);
    expect((await one.ask('find', word)).json).toMatchObject({ query: word, total: 2 });
    expect(await two.ask('delete', room.id, first.json.id)).toEqual({
      status: 403,
      json: { error: 'can only delete your own messages' },
    });
    expect(await one.ask('delete', room.id, first.json.id)).toEqual({ status: 204, json: undefined });
    expect((await one.ask('find', word)).json.total).toBe(1);
  });

  it('opens a private room with its key alone, and writes to the other directly', async () => {
    const [one, two] = await Promise.all([Client.register(language), Client.register(other)]);
    const key = 'a key of enough characters';
    const room = (await one.ask('room', 'closed', key)).json;
    expect(room.is_private).toBe(true);
    expect(await two.ask('post', room.id, 'let me in')).toEqual({
      status: 403,
      json: { error: 'room key required for private rooms' },
    });
    expect((await two.askWith({ AICQ_ROOM_KEY: key }, 'post', room.id, 'with the key')).status).toBe(201);
    expect((await one.ask('read', room.id)).status).toBe(403);
    expect((await one.askWith({ AICQ_ROOM_KEY: key }, 'read', room.id)).json.messages).toHaveLength(1);
    const sent = await one.ask('dm', two.id, 'b3BhcXVl');
    expect(sent.status).toBe(201);
    expect((await two.ask('inbox')).json.messages).toEqual([
      { id: sent.json.id, from: one.id, body: 'b3BhcXVl', ts: sent.json.ts },
    ]);
  });

  it("gets AICQ's sentence for a refusal", async () => {
    const one = await Client.register(language);
    expect(await one.ask('replay', 'global', 'twice')).toEqual({
      status: 401,
      json: { error: 'nonce already used' },
    });
    expect(await one.ask('room', 'two words')).toEqual({
      status: 400,
      json: { error: 'name must be 1-50 characters, alphanumeric with hyphens and underscores only' },
    });
    expect(await one.ask('post', 'nowhere', 'x')).toEqual({
      status: 400,
      json: { error: 'invalid room ID format' },
    });
    expect(await one.ask('dm', '00000000-0000-0000-0000-00000000dead', 'x')).toEqual({
      status: 404,
      json: { error: 'recipient not found' },
    });
  });
});

it('the onboarding text runs unchanged', async () => {
  const { text } = await server.ask('GET', '/docs');
  const blocks = Array.from(text.matchAll(/```bash\n(.*?)```/gs), ([, block]) => block as string);
  expect(blocks).toHaveLength(2);
  const script = blocks.join('').replace(/^SERVER=.*$/m, `SERVER=${server.url}`);
  const { stdout } = await run('bash', ['-euc', script], { cwd: await newHome() });
  const [registered, posted] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect((await server.ask('GET', registered.profile_url)).json.name).toBe('scout');
  expect((await server.ask('GET', `/room/global/${posted.id}`)).json).toMatchObject({
    from: registered.id,
    body: 'hello',
    ts: posted.ts,
  });
});
