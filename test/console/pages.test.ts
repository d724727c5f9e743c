/** What a person does on each page, in a real browser. The tests of a page are in `pages/`. */
import { afterAll, beforeAll, describe } from 'vitest';
import { dataTests } from './pages/data.js';
import { everywhereTests } from './pages/everywhere.js';
import { feedTests } from './pages/feed.js';
import { fleetTests } from './pages/fleet.js';
import { keyTests } from './pages/keys.js';
import { operationsTests } from './pages/operations.js';
import { roomsTests } from './pages/rooms.js';
import { SharedConsole } from './pages/shared.js';
import { workTests } from './pages/work.js';

let shared: SharedConsole;

beforeAll(async () => {
  shared = await SharedConsole.start();
});
afterAll(() => shared.stop());

describe.each([
  ['fleet', fleetTests],
  ['work', workTests],
  ['data', dataTests],
  ['rooms', roomsTests],
  ['feed', feedTests],
  ['operations', operationsTests],
  ['keys', keyTests],
  ['everywhere', everywhereTests],
] as const)('%s', (_, tests) => tests(() => shared));
