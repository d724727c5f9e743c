import { validate } from '@langchain/langgraph-checkpoint-validation';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { StoaSaver } from '../../src/langgraph/index.js';
import { Running } from '../server/running.js';

let running: Running;
let created = 0;

// The suite expects a runner that defines these everywhere.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

validate({
  checkpointerName: 'stoa/langgraph',
  beforeAll: async () => {
    running = await Running.start();
  },
  afterAll: () => running.stop(),
  createCheckpointer: () => {
    created += 1;
    return new StoaSaver({ client: new Stoa({ url: running.url, token: running.alice }), namespace: `checkpoints-${created}` });
  },
});
