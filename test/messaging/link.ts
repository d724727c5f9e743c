/** Links an identity to an agent of the registry. */
import { expect } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { Agent, MessagingServer } from './kit.js';

/** Links the identity to a new agent of a user. */
export async function linkTo(server: MessagingServer, identity: Agent): Promise<void> {
  const { stoa } = server;
  const { agent_id } = await stoa.registry.createAgent(operatorCaller('ada'), { name: 'scout' });
  const { token } = await stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  const { status } = await server.ask('PUT', `/v1/identities/${identity.id}/link`, {
    body: { agent_id, consent: identity.consent(agent_id) },
    headers: { authorization: `Bearer ${token}` },
  });
  expect(status).toBe(200);
}
