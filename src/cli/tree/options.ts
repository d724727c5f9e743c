/** Options that several hand-written commands have. */
import { pageFlags, roomKeyFlag } from '../../api/command.js';
import { topicsFlag } from '../../api/feed/commands.js';

export const namespaceOption = ['-n, --namespace <namespace>', 'The namespace (default: "default")'] as const;

export const pageOptions = pageFlags.map(([, flags, about]) => [flags, about] as const);

export const roomKeyOption = [roomKeyFlag[1], roomKeyFlag[2]] as const;

export const topicsOption = [topicsFlag[1], topicsFlag[2]] as const;
