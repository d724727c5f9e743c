/** Identities over HTTP: registration, profiles, keys, and the link to a registry agent. */
import { z } from 'zod';
import { operatorCaller } from '../../identity/caller.js';
import { canonicalUuid } from '../../messaging/uuid.js';
import { shownProof } from '../../messaging/proof.js';
import type { IdentityKey, IdentityLink } from '../../messaging/model.js';
import type { EventStreams } from '../event-stream.js';
import { pageQuery } from '../query.js';
import { answer, anyone, authenticated, defineRoute } from '../route.js';
import { limited, signatureOf } from './messaging-gate.js';
import {
  looseQuery,
  profileSchema,
  proofSchema,
  readFields,
  readOptionalTexts,
  secondsIso,
  shownProfile,
} from './messaging-wire.js';

const registeredSchema = z.object({ id: z.string(), profile_url: z.string() }).meta({ id: 'Registered' });
const keySchema = z
  .object({
    public_key: z.string(),
    from: z.string(),
    until: z.string().optional(),
    sig: z.string().optional(),
    proof: proofSchema.optional(),
  })
  .meta({ id: 'IdentityKey' });
const idParams = z.object({ id: z.string() });

function shownKey({ publicKey, fromMs, untilMs, proof }: IdentityKey): z.output<typeof keySchema> {
  return {
    public_key: publicKey,
    from: new Date(fromMs).toISOString(),
    ...(untilMs !== null && { until: new Date(untilMs).toISOString() }),
    ...(proof !== null && { sig: proof.signature, proof: shownProof(proof, publicKey) }),
  };
}

export const identityRoutes = [
  defineRoute({
    method: 'POST',
    path: '/register',
    summary: 'Register an agent by its Ed25519 public key',
    description:
      'A key that is known answers its id with 200 and changes nothing. Signed with the key itself (X-AICQ-Nonce, -Timestamp, -Signature), the registration is marked as proven.',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    query: looseQuery({}),
    body: z
      .looseObject({ public_key: z.string(), name: z.string().optional(), email: z.string().optional() })
      .meta({ id: 'Registration' }),
    answers: { 200: registeredSchema, 201: registeredSchema },
    handler: limited(async ({ request, rawBody }, messaging) => {
      const input = readFields(request, rawBody, { public_key: 'text', name: 'text', email: 'text' });
      const { id, created } = await messaging.identities.register(input, {
        headers: request.headers,
        rawBody,
      });
      return answer(created ? 201 : 200, { id, profile_url: `/who/${id}` });
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/who/{id}',
    summary: 'The profile of an agent',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    params: idParams,
    query: looseQuery({}),
    answers: { 200: profileSchema },
    handler: limited(async ({ params }, messaging) =>
      shownProfile(await messaging.identities.get(params.id)),
    ),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/who/{id}',
    summary: "Change one's own name or e-mail address",
    tags: ['messaging'],
    principals: ['agent'],
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    params: idParams,
    query: looseQuery({}),
    body: z
      .looseObject({ name: z.string().nullish(), email: z.string().nullish() })
      .meta({ id: 'ProfileChange' }),
    answers: { 200: profileSchema },
    handler: limited(async ({ caller, params, request, rawBody }, messaging) =>
      shownProfile(
        await messaging.identities.updateProfile(
          caller,
          params.id,
          readOptionalTexts(request, rawBody, ['name', 'email']),
        ),
      ),
    ),
  }),
  defineRoute({
    method: 'POST',
    path: '/who/{id}/key',
    summary: "Replace one's key: the old key signs the request, the new one its proof",
    description:
      "`proof` is the new key's signature over `aicq-key-rotation|{id}|{old public key}|{new public key}`. The old key stays in the history and cannot be registered again.",
    tags: ['messaging'],
    principals: ['agent'],
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    params: idParams,
    query: looseQuery({}),
    body: z.looseObject({ public_key: z.string(), proof: z.string() }).meta({ id: 'KeyRotation' }),
    answers: { 200: profileSchema },
    handler: limited(async ({ caller, params, request, rawBody, streams }, messaging) => {
      const identity = await messaging.identities.rotate(
        caller,
        params.id,
        readFields(request, rawBody, { public_key: 'text', proof: 'text' }),
        signatureOf(request),
      );
      // Whoever rotates may do so because the old key is known to others.
      endStreamsOf(streams, identity.id);
      return shownProfile(identity);
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/who/{id}/keys',
    summary: 'Every key that an agent has had, oldest first',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    params: idParams,
    query: looseQuery({}),
    answers: { 200: z.object({ id: z.string(), keys: z.array(keySchema) }) },
    handler: limited(async ({ params }, messaging) => ({
      id: canonicalUuid(params.id) ?? params.id,
      keys: (await messaging.identities.keys(params.id)).map(shownKey),
    })),
  }),
];

const linkSchema = z
  .object({
    identity: z.string(),
    user: z.string(),
    agent_id: z.string(),
    agent_name: z.string(),
    write: z.boolean(),
    namespaces: z.array(z.string()).nullable(),
    linked_at: z.string(),
  })
  .meta({ id: 'IdentityLink' });

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

/** On /v1, with its errors and credentials: the user decides what an identity may reach. */
export const identityLinkRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/agents/{id}/identities',
    summary: 'The messaging identities that speak for an agent, and what each reaches',
    tags: ['identities'],
    principals: authenticated,
    params: z.object({ id: z.string().meta({ description: 'The agent: 64 hexadecimal digits.' }) }),
    query: z.object(pageQuery),
    answers: { 200: z.object({ items: z.array(linkSchema), next_cursor: z.string().nullable() }) },
    handler: async ({ stoa, caller, params, query }) => {
      const page = await stoa.registry.listIdentities(caller, params.id, query);
      const links = await Promise.all(
        page.items.map(async (id) => ({ id, link: await stoa.messaging.identities.linkOf(id) })),
      );
      // What the identity itself is linked to counts: the registry is told first of a link, and last of its end.
      const items = links.flatMap(({ id, link }) =>
        link?.agentId === params.id.toLowerCase() ? [shownLink(id, link)] : [],
      );
      return { items, next_cursor: page.next_cursor };
    },
  }),
  defineRoute({
    method: 'PUT',
    path: '/v1/identities/{id}/link',
    summary: "Link a messaging identity to a registry agent, so that its signature opens the user's data",
    description:
      'The identity has to agree: `consent` is its signature over `stoa-link|{id}|{agent_id}|{signed_at}`, at most an hour old. Neither the operator needs it, nor who changes a link to the same user.',
    tags: ['identities'],
    principals: ['operator', 'user'],
    params: idParams,
    body: z
      .strictObject({
        agent_id: z.string().min(1).meta({ description: 'A registry agent of the user.' }),
        write: z.boolean().default(true),
        namespaces: z
          .array(z.string())
          .nullable()
          .default(null)
          .meta({ description: 'The namespaces of the data store that it reaches; null means all.' }),
        consent: z
          .strictObject({
            signed_at: z.int().min(0).meta({ description: 'Unix milliseconds.' }),
            signature: z.string().meta({ description: 'Base64.' }),
          })
          .optional(),
      })
      .meta({ id: 'LinkIdentity' }),
    answers: { 200: linkSchema },
    handler: async ({ stoa, caller, params, body, streams }) => {
      const agent = await stoa.registry.getAgent(caller, body.agent_id);
      const link = {
        user: agent.user,
        agentId: agent.agent_id,
        agentName: agent.name,
        write: body.write,
        namespaces: body.namespaces,
      };
      const { identities } = stoa.messaging;
      const { id } = await identities.checkLink(caller, params.id, link, body.consent ?? null);
      // The registry is told first: whoever looks there misses no identity that can speak for the agent.
      const known = await stoa.registry.linkedAgent(id);
      if (known !== null && known.agent_id !== agent.agent_id)
        await stoa.registry.unlinkIdentity(operatorCaller(), id);
      await stoa.registry.linkIdentity(caller, agent.agent_id, id);
      const identity = await identities.link(caller, id, link, body.consent ?? null);
      endStreamsOf(streams, id);
      return shownLink(id, identity.link ?? { ...link, linkedAtMs: stoa.kernel.nowMs() });
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/identities/{id}/link',
    summary: 'Take the link away again',
    tags: ['identities'],
    description: 'The user, or the identity itself: it may always leave.',
    principals: authenticated,
    ofItself: true,
    params: idParams,
    answers: { 204: null },
    handler: async ({ stoa, caller, params, streams }) => {
      const identity = await stoa.messaging.identities.unlink(caller, params.id);
      await stoa.registry.unlinkIdentity(operatorCaller(), identity.id);
      endStreamsOf(streams, identity.id);
      return answer(204);
    },
  }),
];

/** What is open was opened under the key and the link as they were; whoever connects again is judged anew. */
function endStreamsOf(streams: EventStreams, identity: string): void {
  streams.endOf((caller) => caller.identity === identity);
}
