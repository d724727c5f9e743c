/** The handlers of agents, agent sessions, users, tokens and links of messaging identities. */
import type { z } from 'zod';
import { agents, links, tokens, users } from '../../api/registry/operations.js';
import {
  agentSchemas,
  type linkSchema,
  linkSchemas,
  tokenSchemas,
  userSchemas,
} from '../../api/registry/schemas.js';
import type { IdentityLink } from '../../messaging/model.js';
import { answer, routesOf } from '../route.js';
import { endStreamsOf, secondsIso } from './messaging/wire.js';
import { positioned } from './positioned.js';

const agentRoutes = routesOf('agents', agents, agentSchemas, {
  list: ({ stoa, caller, query }) => positioned(stoa, () => stoa.registry.listAgents(caller, query)),
  create: ({ stoa, caller, body, idempotency }) => stoa.registry.createAgent(caller, body, idempotency),
  get: ({ stoa, caller, params }) => stoa.registry.getAgent(caller, params.agent_id),
  update: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.registry.updateAgent(caller, params.agent_id, body, { ifVersion }),
  delete: async ({ stoa, caller, params, ifVersion, streams }) => {
    const removed = await stoa.registry.deleteAgent(caller, params.agent_id, { ifVersion });
    // The signature of a deleted agent no longer gives access.
    streams.endOf(({ agentId }) => agentId === removed);
    return undefined;
  },
  forget: async ({ stoa, caller, params, ifVersion, streams }) => {
    const removed = await stoa.registry.forgetAgent(caller, params.agent_id, { ifVersion });
    streams.endOf(({ agentId }) => agentId === removed);
    return undefined;
  },
  start: ({ stoa, caller, params, ifVersion }) => stoa.registry.start(caller, params.agent_id, { ifVersion }),
  stop: ({ stoa, caller, params, ifVersion }) => stoa.registry.stop(caller, params.agent_id, { ifVersion }),
  restart: ({ stoa, caller, params, ifVersion }) =>
    stoa.registry.restart(caller, params.agent_id, { ifVersion }),
  hibernate: ({ stoa, caller, params, ifVersion }) =>
    stoa.registry.hibernate(caller, params.agent_id, { ifVersion }),
  wake: ({ stoa, caller, params, ifVersion }) => stoa.registry.wake(caller, params.agent_id, { ifVersion }),
  heartbeat: ({ stoa, caller, params, body }) => stoa.registry.heartbeat(caller, params.agent_id, body),
  listSessions: ({ stoa, caller, params, query }) =>
    stoa.registry.listSessions(caller, params.agent_id, query),
  openSession: ({ stoa, caller, params, body, idempotency }) =>
    stoa.registry.openSession(caller, params.agent_id, body, idempotency),
  getSession: ({ stoa, caller, params }) =>
    stoa.registry.getSession(caller, params.session_id, params.agent_id),
  closeSession: ({ stoa, caller, params }) =>
    stoa.registry.closeSession(caller, params.session_id, params.agent_id),
  listIdentities: async ({ stoa, caller, params, query }) => {
    const agentId = await stoa.registry.agents.idOf(caller, params.agent_id);
    const page = await stoa.registry.listIdentities(caller, agentId, query);
    const found = await Promise.all(
      page.items.map(async (id) => ({ id, link: await stoa.messaging.identities.linkOf(id) })),
    );
    // The link in the identity's own record decides.
    const items = found.flatMap(({ id, link }) => (link?.agentId === agentId ? [shownLink(id, link)] : []));
    return { items, next_cursor: page.next_cursor };
  },
});

const userRoutes = routesOf('users', users, userSchemas, {
  list: ({ stoa, caller, query }) => stoa.registry.listUsers(caller, query),
  get: ({ stoa, caller, params }) => stoa.registry.getUser(caller, params.user),
  set: ({ stoa, caller, params, body }) => stoa.registry.putUser(caller, params.user, body),
});

const tokenRoutes = routesOf('tokens', tokens, tokenSchemas, {
  list: ({ stoa, caller, params, query }) => stoa.identity.listTokens(caller, params.user, query),
  create: ({ stoa, caller, params, body, idempotency }) =>
    stoa.identity.createToken(caller, params.user, body, idempotency),
  revoke: async ({ stoa, caller, params, query: { token } }) => ({
    revoked: await stoa.identity.revokeTokens(caller, params.user, token === 'all' ? undefined : token),
  }),
});

const linkRoutes = routesOf('links', links, linkSchemas, {
  set: async ({ stoa, caller, params, body, streams }) => {
    const { identity, link } = await stoa.links.link(caller, params.identity, body);
    endStreamsOf(streams, identity);
    return shownLink(identity, link);
  },
  delete: async ({ stoa, caller, params, streams }) => {
    const { identity } = await stoa.links.unlink(caller, params.identity);
    endStreamsOf(streams, identity);
    return answer(204);
  },
});

function shownLink(
  identity: string,
  { user, agentId, agentName, write, namespaces, linkedAtMs }: IdentityLink,
): z.output<typeof linkSchema> {
  return {
    identity,
    user,
    agent_id: agentId,
    agent_name: agentName,
    write,
    namespaces,
    linked_at: secondsIso(linkedAtMs),
  };
}

export const registryRoutes = [...agentRoutes, ...userRoutes, ...tokenRoutes, ...linkRoutes];
