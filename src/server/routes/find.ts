/** The handlers of the search. */
import { find } from '../../api/find/operations.js';
import { findSchemas } from '../../api/find/schemas.js';
import { withProgress } from '../answer/progress-stream.js';
import { disconnectionOf } from '../request/disconnection.js';
import { routesOf } from '../route.js';

export const findRoutes = routesOf('find', find, findSchemas, {
  search: ({ stoa, caller, query, reply }) =>
    stoa.find.find(caller, { ...query, signal: disconnectionOf(reply) }),
  reindex: ({ stoa, caller, body, request, reply, streams }) =>
    withProgress({ stoa, request, reply, streams }, (onProgress) =>
      stoa.find.reindex(caller, body.namespace, onProgress),
    ),
  query: ({ stoa, caller, body, reply }) =>
    stoa.find.find(caller, { ...body, signal: disconnectionOf(reply) }),
});
