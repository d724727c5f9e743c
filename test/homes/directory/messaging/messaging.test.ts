import { messagingConformance } from '../../../messaging/conformance.js';
import { Desk, roomy } from '../../../messaging/kit.js';

messagingConformance({
  name: 'the embedded store',
  open: (options) => Desk.open({ limits: roomy, ...options }),
});
