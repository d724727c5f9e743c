/** The handlers of the search. */
import { find } from '../../api/find/operations.js';
import { findSchemas } from '../../api/find/schemas.js';
import { goneOf } from '../request/gone.js';
import { routesOf } from '../route.js';

export const findRoutes = routesOf('find', find, findSchemas, {
  search: ({ stoa, caller, query, reply }) => stoa.find.find(caller, { ...query, signal: goneOf(reply) }),
  query: ({ stoa, caller, body, reply }) => stoa.find.find(caller, { ...body, signal: goneOf(reply) }),
});
