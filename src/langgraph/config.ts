/** What a configuration of LangGraph names: a thread, a namespace and a checkpoint. */
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';
import { StoaError } from '../core/errors.js';
import type { Line } from './checkpoint-keys.js';

export type Config = Parameters<BaseCheckpointSaver['getTuple']>[0];

export function configOf({ thread, ns }: Line, id: string): Config {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } };
}

export function textIn(config: Config, name: string): string | undefined {
  const value: unknown = config.configurable?.[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string')
    throw new StoaError('invalid_request', `configurable.${name} must be text, got ${typeof value}.`, {
      details: { field: name },
    });
  return value;
}

export function required(config: Config, name: string): string {
  const value = textIn(config, name);
  if (value === undefined || value === '') {
    throw new StoaError('invalid_request', `configurable.${name} is missing.`, {
      fix: `Pass { configurable: { ${name}: … } }.`,
      details: { field: name },
    });
  }
  return value;
}
