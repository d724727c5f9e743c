/** The backend of messaging that the settings name. Drivers are loaded only when they are chosen. */
import type { Writer } from '../core/write.js';
import { StoaError } from '../core/errors.js';
import type { Kernel } from '../homes/directory/kernel/kernel.js';
import type { MessagingPort } from '../messaging/port.js';
import { checkFenceFromOutside } from '../homes/directory/fence.js';
import { openDirectoryMessaging } from '../homes/directory/messaging/messaging.js';

export interface MessagingBackendOptions {
  kernel: Kernel;
  /** Of the data directory. */
  writer: Writer;
  /** Null or `embedded` keeps messaging in the data directory. */
  postgres: string | null;
  redis: string | null;
  onError: (error: unknown, about: string) => void;
}

export async function openMessagingBackend({
  kernel,
  writer,
  postgres,
  redis,
  onError,
}: MessagingBackendOptions): Promise<{ writer: Writer; port: MessagingPort }> {
  if (postgres === null || postgres === 'embedded')
    return { writer, port: await openDirectoryMessaging(kernel, onError) };
  if (redis === null) {
    throw new StoaError('invalid_config', 'Messaging on PostgreSQL needs a Redis beside it.', {
      fix: 'Set --redis to its redis:// URL.',
    });
  }
  const { openPostgresMessaging } = await import('../homes/postgres/messaging/messaging.js');
  const { RedisWriter } = await import('../homes/postgres/messaging/writer.js');
  const port = await openPostgresMessaging({
    postgres,
    redis,
    limits: kernel.limits,
    nowMs: () => kernel.nowMs(),
    announce: (change) => kernel.root.transact((tx) => tx.change(change)),
    onError,
  });
  return { writer: new RedisWriter((caller) => checkFenceFromOutside(kernel, caller)), port };
}
