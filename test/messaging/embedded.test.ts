import { messagingConformance } from './conformance.js';
import { Desk, roomy } from './kit.js';

messagingConformance({
  name: 'the embedded store',
  open: (options) => Desk.open({ limits: roomy, ...options }),
});
