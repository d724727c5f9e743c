/** The definition of a tool: the tool list and the calls both use it. */
import { z } from 'zod';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';

export interface ToolContext {
  readonly stoa: Stoa;
  readonly caller: Caller;
  /** Aborted when the client cancels the call or disconnects. */
  readonly signal: AbortSignal;
}

/**
 * Hints for clients that decide which calls need a person's consent. All tools act only inside Stoa, so none
 * is open-world.
 */
interface ToolAnnotations {
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
}

interface ToolFacts {
  name: string;
  title: string;
  /** For a language model: the purpose of the tool and when to use it. */
  description: string;
  annotations: ToolAnnotations;
}

export interface ToolDefinition<Input extends z.ZodType, Output extends z.ZodType> extends ToolFacts {
  input: Input;
  output: Output;
  run(context: ToolContext, input: z.output<Input>): z.input<Output> | Promise<z.input<Output>>;
}

/** A tool with its types erased, for the list of tools. */
export interface Tool extends ToolFacts {
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  run(context: ToolContext, input: unknown): unknown;
}

export function defineTool<Input extends z.ZodType, Output extends z.ZodType>(
  definition: ToolDefinition<Input, Output>,
): Tool {
  // The server passes `run` the output of the schema in the same definition.
  return definition;
}

export interface ListedTool {
  name: string;
  title: string;
  description: string;
  inputSchema: JsonSchema;
  outputSchema: JsonSchema;
  annotations: ToolAnnotations & { openWorldHint: false };
  [other: string]: unknown;
}

type JsonSchema = { type: 'object'; [keyword: string]: unknown };

export function listedTool({ name, title, description, annotations, input, output }: Tool): ListedTool {
  return {
    name,
    title,
    description,
    inputSchema: jsonSchemaOf(input, 'input'),
    outputSchema: jsonSchemaOf(output, 'output'),
    annotations: { ...annotations, openWorldHint: false },
  };
}

/** Each client sends this list to its model in every conversation, so it has no redundant keywords. */
function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    reused: 'inline',
    override: ({ jsonSchema }) => {
      delete jsonSchema.id;
      // Answers may get new fields; a client must not refuse them.
      if (io === 'output') delete jsonSchema.additionalProperties;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.propertyNames !== undefined) delete jsonSchema.propertyNames;
    },
  });
  return { ...json, type: 'object' };
}
