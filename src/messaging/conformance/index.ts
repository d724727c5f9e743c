/** The conformance suite of messaging, through HTTP: what every home must do. */
import type { TestRunner } from '../../core/test-runner.js';
import type { Backend } from './desk.js';
import { directTests } from './direct.js';
import { headerTests } from './headers.js';
import { limitTests } from './limits.js';
import { liveTests } from './live.js';
import { liveMessageTests } from './live-messages.js';
import { messageTests } from './messages.js';
import { privacyTests } from './privacy.js';
import { privateRoomTests } from './private-rooms.js';
import { profileTests } from './profiles.js';
import { registrationTests } from './registration.js';
import { retentionTests } from './retention.js';
import { roomKeyTests } from './room-keys.js';
import { roomTests } from './rooms.js';
import { searchTests } from './search.js';
import { serverTests } from './server.js';
import { messageSignatureTests } from './signatures.js';
import { signedRequestTests } from './signed-requests.js';
import { wireTests } from './wire.js';

export { Desk, type Backend, type DeskOptions, type DeskStoa, roomy } from './desk.js';

export function messagingConformance(runner: TestRunner, backend: Backend): void {
  registrationTests(runner, backend);
  signedRequestTests(runner, backend);
  profileTests(runner, backend);
  roomTests(runner, backend);
  messageTests(runner, backend);
  privateRoomTests(runner, backend);
  searchTests(runner, backend);
  directTests(runner, backend);
  liveMessageTests(runner, backend);
  serverTests(runner, backend);
  limitTests(runner, backend);
  roomKeyTests(runner, backend);
  retentionTests(runner, backend);
  headerTests(runner, backend);
  liveTests(runner, backend);
  privacyTests(runner, backend);
  messageSignatureTests(runner, backend);
  wireTests(runner, backend);
}
