import * as vitest from 'vitest';
import { messagingConformance } from '../../../../src/messaging/conformance/index.js';
import { MessagingServer, roomy } from '../../../messaging/kit.js';

messagingConformance(vitest, {
  name: 'the directory home',
  open: (options) => MessagingServer.open({ limits: roomy, ...options }),
});
