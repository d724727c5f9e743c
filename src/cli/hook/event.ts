/** What an agent program passes to its hooks on standard input. Every field may be missing. */
import type { Readable } from 'node:stream';
import { z } from 'zod';

/** Larger inputs are not read: the answer of a tool can be long. */
const inputBytesMax = 1024 * 1024;
/** A program that leaves its end of the input open must not delay the hook. */
const inputMsMax = 2_000;

const eventSchema = z.object({
  session_id: z.string().min(1).max(1_000).optional(),
  tool_response: z.unknown().optional(),
});
export type HookEvent = z.output<typeof eventSchema>;

export async function readEvent(input: Readable & { isTTY?: boolean }): Promise<HookEvent> {
  if (input.isTTY === true) return {};
  const { success, data } = eventSchema.safeParse(jsonOf(await textOf(input)));
  return success ? data : {};
}

/** What arrives in time. Empty if it is too long. */
async function textOf(input: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const timer = setTimeout(() => input.destroy(), inputMsMax);
  try {
    for await (const chunk of input) {
      const piece = Buffer.from(chunk as Uint8Array); // No code sets an encoding for this input.
      bytes += piece.length;
      if (bytes > inputBytesMax) return '';
      chunks.push(piece);
    }
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE'))
      throw error;
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(chunks).toString();
}

/** The name in the answer of the tool `agents`: `you`, at any depth, also in a text that is JSON. */
export function ownName(answer: unknown, depth = 0): string | undefined {
  if (depth > 6) return undefined;
  if (typeof answer === 'string') {
    const inner = jsonOf(answer);
    return typeof inner === 'object' ? ownName(inner, depth + 1) : undefined;
  }
  if (typeof answer !== 'object' || answer === null) return undefined;
  if ('you' in answer && typeof answer.you === 'string') return answer.you;
  for (const part of Object.values(answer)) {
    const found = ownName(part, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
