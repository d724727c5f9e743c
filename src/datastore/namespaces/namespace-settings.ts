/** The settings of a namespace: how the search treats its documents. */
import type { Caller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Step, type Writer, writeOne } from '../../core/write.js';
import { readableScope, writableScope } from '../access.js';
import type { Scope } from '../model.js';
import type { MaybePromise } from '../port.js';

export interface NamespaceSettings {
  /** Whether searches find documents by their words. */
  readonly index: boolean;
  /** Whether documents get vectors, so that searches by meaning find them. */
  readonly embed: boolean;
  /** The members of a value that are embedded; null for everything that is searched by words. */
  readonly embed_fields: readonly string[] | null;
}

export type SettingsChange = {
  readonly [Name in keyof NamespaceSettings]?: NamespaceSettings[Name] | undefined;
};

export const settingsDefault: NamespaceSettings = { index: true, embed: false, embed_fields: null };

/** Where a home keeps settings. A namespace without any has the defaults. */
export interface NamespaceSettingsPort {
  read(scope: Scope): MaybePromise<NamespaceSettings>;
  /** In the same transaction, documents that the change concerns are marked for the background work. */
  change(scope: Scope, change: SettingsChange): Step<NamespaceSettings>;
}

export interface NamespaceSettingsOptions {
  readonly port: NamespaceSettingsPort;
  readonly writer: Writer;
  readonly limits: Limits;
  /** Throws if documents cannot get vectors here. */
  readonly checkEmbeds: () => void;
}

export class NamespaceSettingsService {
  readonly #options: NamespaceSettingsOptions;

  constructor(options: NamespaceSettingsOptions) {
    this.#options = options;
  }

  async read(caller: Caller, namespace: string): Promise<NamespaceSettings> {
    return this.#options.port.read(readableScope(caller, namespace, this.#options.limits));
  }

  /** Members that are left out stay as they are. */
  async change(caller: Caller, namespace: string, change: SettingsChange): Promise<NamespaceSettings> {
    const { port, writer, limits, checkEmbeds } = this.#options;
    const scope = writableScope(caller, namespace, limits);
    checkFields(change.embed_fields ?? [], limits);
    if (change.embed === true) checkEmbeds();
    return writeOne(writer, { caller, idempotency: null }, port.change(scope, change));
  }
}

/** The settings after a change, for both homes. */
export function changedSettings(before: NamespaceSettings, change: SettingsChange): NamespaceSettings {
  const after: NamespaceSettings = {
    index: change.index ?? before.index,
    embed: change.embed ?? before.embed,
    embed_fields: change.embed_fields === undefined ? before.embed_fields : change.embed_fields,
  };
  if (after.embed && !after.index)
    throw new StoaError(
      'invalid_request',
      'The namespace would have vectors (embed is true) and no index (index is false).',
      { fix: 'Set index to true, or embed to false, in the same request.' },
    );
  return after;
}

/** Whether the vectors of the namespace follow from other texts than before. */
export function changesVectors(before: NamespaceSettings, after: NamespaceSettings): boolean {
  return (
    before.embed !== after.embed || JSON.stringify(before.embed_fields) !== JSON.stringify(after.embed_fields)
  );
}

export function isDefault(settings: NamespaceSettings): boolean {
  return settings.index && !settings.embed && settings.embed_fields === null;
}

/** Called by a home with the number of namespaces of the user that have settings. */
export function checkSettingsCount(count: number, limits: Limits): void {
  if (count > limits.namespaceSettingsMax)
    throw limitError('quota_exceeded', {
      subject: 'The number of namespaces with settings',
      unit: 'namespaces',
      limit: 'namespaceSettingsMax',
      limits,
      advice: 'Set a namespace that is not used back to the defaults',
    });
}

function checkFields(fields: readonly string[], limits: Limits): void {
  if (fields.length > limits.embedFieldsMax)
    throw limitError('invalid_request', {
      subject: 'embed_fields',
      unit: 'members',
      limit: 'embedFieldsMax',
      limits,
      received: fields.length,
      advice: 'Name fewer members',
    });
  for (const field of fields)
    if (field === '' || Buffer.byteLength(field) > limits.dataKeyBytesMax)
      throw new StoaError(
        'invalid_request',
        `embed_fields has a name that is empty or longer than ${limits.dataKeyBytesMax} bytes (dataKeyBytesMax).`,
        { fix: 'Use names such as "text" or "message.body".' },
      );
}
