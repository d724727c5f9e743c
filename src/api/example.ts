/**
 * An example of an operation, for the OpenAPI document and the page at /reference. Only the server loads
 * examples; clients never do.
 */
import type { AnswerOf, GroupName, Groups, InputOf, OperationName } from './call.js';

/** An example with the types of its operation erased. */
export interface Example {
  /** The fields of the operation, wherever they are sent. */
  readonly request: object;
  /** Only for an answer that is JSON. */
  readonly answer?: unknown;
  /** The lines of an upload. */
  readonly lines?: readonly string[];
  /** The call with the client, if it is not `stoa.<group>.<verb>(…)` with the fields in order. */
  readonly client?: string;
  /** The command, if it is not derived from the operation. */
  readonly command?: string;
}

type ExampleOf<Name extends OperationName> = Omit<Example, 'request' | 'answer'> & {
  readonly request: InputOf<Name> & object;
} & ([AnswerOf<Name>] extends [undefined]
    ? { readonly answer?: undefined }
    : { readonly answer: NonNullable<AnswerOf<Name>> });

/** The examples of a group. A test proves that no operation is left out. */
export type ExamplesOf<Name extends GroupName> = {
  readonly [Verb in keyof Groups[Name]['table'] & string]?: ExampleOf<`${Name}.${Verb}` & OperationName>;
};
