/** A server of `processor-time.ts` in its own process. */
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { createApp } from '../../src/server/app.js';
import { settleProcess } from '../../src/server/process-settings.js';
import { serve } from '../child-server.js';
import type { Place } from './cluster.js';

export interface Served {
  readonly url: string;
  readonly token: string;
}

const place = JSON.parse(process.argv[2] ?? '') as Place;
settleProcess();
const stoa = await openStoa(place);
const { token } = await stoa.identity.createToken(operatorCaller(), 'bench', {}, null);
const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
serve({ url, token } satisfies Served);
