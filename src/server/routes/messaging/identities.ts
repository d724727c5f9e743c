/** The handlers of messaging identities. */
import { identities } from '../../../api/messaging/operations.js';
import { identitySchemas } from '../../../api/messaging/schemas.js';
import { canonicalUuid } from '../../../messaging/identities/uuid.js';
import { answer, routesOf } from '../../route.js';
import { limited, signatureOf } from './gate.js';
import { endStreamsOf, readFields, readOptionalTexts, shownKey, shownProfile } from './wire.js';

export const identityRoutes = routesOf('identities', identities, identitySchemas, {
  register: limited(async ({ request, rawBody }, messaging) => {
    const input = readFields(request, rawBody, { public_key: 'text', name: 'text', email: 'text' });
    const { id, created } = await messaging.identities.register(input, {
      headers: request.headers,
      rawBody,
    });
    return answer(created ? 201 : 200, { id, profile_url: `/who/${id}` });
  }),
  get: limited(async ({ params }, messaging) =>
    shownProfile(await messaging.identities.get(params.identity)),
  ),
  update: limited(async ({ caller, params, request, rawBody }, messaging) =>
    shownProfile(
      await messaging.identities.updateProfile(
        caller,
        params.identity,
        readOptionalTexts(request, rawBody, ['name', 'email']),
      ),
    ),
  ),
  rotate: limited(async ({ caller, params, request, rawBody, streams }, messaging) => {
    const identity = await messaging.identities.rotate(
      caller,
      params.identity,
      readFields(request, rawBody, { public_key: 'text', proof: 'text' }),
      signatureOf(request),
    );
    // A caller may rotate a key because others know the old one.
    endStreamsOf(streams, identity.id);
    return shownProfile(identity);
  }),
  listKeys: limited(async ({ params }, messaging) => ({
    id: canonicalUuid(params.identity) ?? params.identity,
    keys: (await messaging.identities.keys(params.identity)).map(shownKey),
  })),
});
