/** Lines of a stream with a maximum length: a line that is too long is reported and skipped. */

export type Line = { kind: 'message'; text: string } | { kind: 'too long' };

const newline = 0x0a;

export async function* linesOf(input: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Line> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const take = (part: Uint8Array): void => {
    bytes += part.length;
    if (bytes <= bytesMax) parts.push(part);
    else parts = [];
  };
  const finish = (): Line | undefined => {
    const line: Line =
      bytes > bytesMax
        ? { kind: 'too long' }
        : { kind: 'message', text: Buffer.concat(parts).toString().trim() };
    [parts, bytes] = [[], 0];
    return line.kind === 'message' && line.text === '' ? undefined : line;
  };
  for await (const chunk of input) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      take(chunk.subarray(start, end));
      start = end + 1;
      const line = finish();
      if (line !== undefined) yield line;
    }
    take(chunk.subarray(start));
  }
  const last = finish();
  if (last !== undefined) yield last;
}
