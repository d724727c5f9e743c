/** What messaging costs: over HTTP, and with a million messages stored. */
import { type Bench, isLarge } from './frame.js';
import { messagingHttpRows } from './messaging-http.js';
import { messagingSizeRows } from './messaging-size.js';

export const messagingBench: Bench = {
  name: 'messaging',
  run: async (directory) => [
    ...(await messagingHttpRows(directory)),
    ...(isLarge ? await messagingSizeRows(directory) : []),
  ],
};
