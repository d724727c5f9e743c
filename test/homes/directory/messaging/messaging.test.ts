import * as vitest from 'vitest';
import { messagingConformance } from '../../../../src/messaging/conformance/index.js';
import { Desk, roomy } from '../../../messaging/kit.js';

messagingConformance(vitest, {
  name: 'the embedded store',
  open: (options) => Desk.open({ limits: roomy, ...options }),
});
