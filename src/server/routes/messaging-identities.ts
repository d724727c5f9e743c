/** Identities over HTTP: registration, profiles and keys. */
import { z } from 'zod';
import { canonicalUuid } from '../../messaging/uuid.js';
import { shownProof } from '../../messaging/proof.js';
import type { IdentityKey } from '../../messaging/model.js';
import { answer, anyone, defineRoute } from '../route.js';
import { limited, signatureOf } from './messaging-gate.js';
import {
  endStreamsOf,
  looseQuery,
  profileSchema,
  proofSchema,
  readFields,
  readOptionalTexts,
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
