import { randomBytes, randomUUID } from 'node:crypto';
import { operatorCaller } from '../../../src/core/caller.js';
import { linkText, sign, signingKeysOf } from '../../../src/identity/signatures.js';
import type { Running } from '../running.js';
import { type Row, open, statuses } from './row.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';

const made = statuses(201, 201, 201, 403, 201, 401);
const inbox = statuses(200, 200, 200, 200, 200, 401);
/** Only for the signed agent that the request is about. */
const ownerOnly = statuses(403, 403, 403, 403, 403, 401);

function newKey(): string {
  return signingKeysOf(randomBytes(32)).publicKey.toString('base64');
}

async function newIdentity({ stoa }: Running): Promise<string> {
  return (
    await writtenPort(stoa.messaging).register({
      publicKey: newKey(),
      name: 'row',
      email: null,
      proven: false,
    })
  ).identity.id;
}

/** A message that alice posted with her token. */
async function messagePath({ stoa }: Running): Promise<string> {
  const { id } = await stoa.messaging.rooms.post(
    { ...operatorCaller('alice'), kind: 'user' },
    { room: 'global' },
    () => ({ body: 'row', pid: '' }),
    null,
  );
  return `/room/global/${id}`;
}

function file(path: string): Row {
  return { request: () => ({ path }), status: open };
}

export const messagingRows: Record<string, Row> = {
  'POST /register': {
    request: () => ({ path: '/register', body: { public_key: newKey() } }),
    status: statuses(201, 201, 201, 201, 201, 201),
  },
  'GET /who/{identity}': {
    request: async (running) => ({ path: `/who/${await newIdentity(running)}` }),
    status: open,
  },
  'PATCH /who/{identity}': {
    request: async (running) => ({ path: `/who/${await newIdentity(running)}`, body: { name: 'other' } }),
    status: ownerOnly,
  },
  'POST /who/{identity}/key': {
    request: async (running) => ({
      path: `/who/${await newIdentity(running)}/key`,
      body: { public_key: newKey(), proof: '' },
    }),
    status: ownerOnly,
  },
  'GET /who/{identity}/keys': {
    request: async (running) => ({ path: `/who/${await newIdentity(running)}/keys` }),
    status: open,
  },
  'GET /channels': file('/channels'),
  'POST /room': {
    request: () => ({ path: '/room', body: { name: `row-${randomBytes(4).toString('hex')}` } }),
    status: made,
  },
  'GET /room/{room}': file('/room/global?limit=1'),
  'POST /room/{room}': { request: () => ({ path: '/room/global', body: { body: 'hello' } }), status: made },
  'GET /room/{room}/stream': file('/room/global/stream'),
  'GET /stream': file('/stream?rooms=global'),
  'GET /room/{room}/{message}': {
    request: async (running) => ({ path: await messagePath(running) }),
    status: open,
  },
  'GET /room/{room}/{message}/thread': {
    request: async (running) => ({ path: `${await messagePath(running)}/thread` }),
    status: open,
  },
  'DELETE /room/{room}/{message}': {
    request: async (running) => ({ path: await messagePath(running) }),
    status: statuses(204, 204, 403, 403, 403, 401),
  },
  'GET /find': file('/find?q=hello'),
  'GET /stats': file('/stats'),
  'GET /dm': { request: () => ({ path: '/dm' }), status: inbox },
  'GET /dm/stream': { request: () => ({ path: '/dm/stream' }), status: inbox },
  'POST /dm/ack': {
    request: () => ({ path: '/dm/ack', body: { ids: ['01ARZ3NDEKTSV4RRFFQ69G5FAV'] } }),
    status: statuses(200, 200, 200, 403, 200, 401),
  },
  'POST /dm/{to}': {
    request: async (running) => ({ path: `/dm/${await newIdentity(running)}`, body: { body: 'b3BhcXVl' } }),
    status: made,
  },
  'GET /': file('/'),
  'GET /aicq': file('/aicq'),
  'GET /page/page.js': file('/page/page.js'),
  'GET /page/page.css': file('/page/page.css'),
  'GET /page/icon.svg': file('/page/icon.svg'),
  'GET /docs': file('/docs'),
  'GET /docs/openapi.yaml': file('/docs/openapi.yaml'),
  'GET /api': file('/api'),
  'GET /v1/blocks': {
    request: () => ({ path: '/v1/blocks' }),
    status: statuses(200, 403, 403, 403, 403, 401),
  },
  'DELETE /v1/blocks': {
    request: async ({ stoa }) => {
      await stoa.messaging.port.block({
        address: '203.0.113.1',
        reason: 'a test',
        expiresAtMs: stoa.home.nowMs() + 60_000,
      });
      return { path: '/v1/blocks?ip=203.0.113.1' };
    },
    status: statuses(204, 403, 403, 403, 403, 401),
  },
  'PUT /v1/identities/{identity}/link': {
    request: async (running) => {
      const { agent_id } = await running.stoa.registry.createAgent(operatorCaller('alice'), {
        name: `linked-${randomUUID()}x`,
      });
      const { publicKey, secretKey } = signingKeysOf(randomBytes(32));
      const { identity } = await writtenPort(running.stoa.messaging).register({
        publicKey: publicKey.toString('base64'),
        name: 'row',
        email: null,
        proven: true,
      });
      const signedAt = new Date().toISOString();
      const signature = sign(secretKey, linkText(identity.id, agent_id, signedAt)).toString('base64');
      return {
        path: `/v1/identities/${identity.id}/link`,
        body: { agent_id, consent: { signed_at: signedAt, signature } },
      };
    },
    status: statuses(200, 200, 404, 403, 403, 401),
  },
  'GET /v1/agents/{agent_id}/identities': {
    request: async (running) => {
      const { agent_id } = await running.stoa.registry.createAgent(operatorCaller('alice'), {
        name: `linked-${randomUUID()}x`,
      });
      return { path: `/v1/agents/${agent_id}/identities` };
    },
    status: statuses(200, 200, 404, 200, 404, 401),
  },
  'DELETE /v1/identities/{identity}/link': {
    request: async (running) => {
      const { agent_id } = await running.stoa.registry.createAgent(operatorCaller('alice'), {
        name: `linked-${randomUUID()}x`,
      });
      const id = await newIdentity(running);
      await running.stoa.links.link(operatorCaller('alice'), id, { agent_id, write: true, namespaces: null });
      return { path: `/v1/identities/${id}/link` };
    },
    status: statuses(204, 204, 404, 403, 403, 401),
  },
};
