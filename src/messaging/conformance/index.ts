/** The conformance suite of messaging, through HTTP: what every home must do. */
import type { TestRunner } from '../../core/test-runner.js';
import type { Backend } from './kit/server.js';
import { directTests } from './messages/direct.js';
import { headerTests } from './identities/headers.js';
import { limitTests } from './limits.js';
import { liveTests } from './messages/live.js';
import { liveMessageTests } from './messages/live-messages.js';
import { messageTests } from './messages/messages.js';
import { ownRoomTests } from './rooms/own-rooms.js';
import { privacyTests } from './rooms/privacy.js';
import { privateRoomTests } from './rooms/private-rooms.js';
import { profileTests } from './identities/profiles.js';
import { registrationTests } from './identities/registration.js';
import { retentionTests } from './rooms/retention.js';
import { roomKeyTests } from './rooms/room-keys.js';
import { roomTests } from './rooms/rooms.js';
import { searchTests } from './messages/search.js';
import { serverTests } from './server.js';
import { settingsTests } from './settings.js';
import { messageSignatureTests } from './identities/signatures.js';
import { signedRequestTests } from './identities/signed-requests.js';
import { wireTests } from './wire.js';

export {
  MessagingServer,
  type Backend,
  type MessagingServerOptions,
  type MessagingServerStoa,
  roomy,
} from './kit/server.js';

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
  ownRoomTests(runner, backend);
  messageSignatureTests(runner, backend);
  wireTests(runner, backend);
  settingsTests(runner, backend);
}
