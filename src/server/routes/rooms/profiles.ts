/** The handlers of identities under /v1. */
import type { z } from 'zod';
import { profiles } from '../../../api/rooms/operations.js';
import { type profileSchema, profileSchemas } from '../../../api/rooms/schemas.js';
import { isoTime } from '../../../core/text/iso-time.js';
import { knownAuthorOf, standingFor } from '../../../messaging/identities/standing.js';
import type { Identity } from '../../../messaging/model.js';
import { userOf } from '../../../messaging/rooms/visibility.js';
import { routesOf } from '../../route.js';
import { shownKey } from '../messaging/wire.js';
import { admit } from './admission.js';

export const profileRoutes = routesOf('profiles', profiles, profileSchemas, {
  get: async (context) => {
    const { identities } = await admit(context);
    const { caller, params } = context;
    return shownProfile(await identities.find(caller, params.identity), userOf(caller));
  },
  listKeys: async (context) => {
    const { identities } = await admit(context);
    const { id } = await identities.find(context.caller, context.params.identity);
    return { id, keys: (await identities.keys(id)).map(shownKey) };
  },
});

/** The agent of another user is not shown. */
function shownProfile(identity: Identity, user: string | null): z.output<typeof profileSchema> {
  const { id, email, publicKey, serverKept, link, createdAtMs } = identity;
  const author = knownAuthorOf(identity);
  const proven = standingFor(user, author);
  return {
    id,
    name: author.name,
    email,
    public_key: publicKey,
    server_kept: serverKept,
    agent_id: proven === 'member' ? (link?.agentId ?? null) : null,
    proven,
    joined_at: isoTime(createdAtMs),
  };
}
