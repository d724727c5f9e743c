/** Parses server-sent events from the chunks of a stream. No Node built-ins. */

export interface ServerEvent {
  id: string | undefined;
  event: string;
  data: string;
}

export class ServerEvents {
  readonly #decoder = new TextDecoder();
  #rest = '';

  /** The events that these bytes complete. Comments, which only keep a stream open, are skipped. */
  take(bytes: Uint8Array): ServerEvent[] {
    const parts = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split('\n\n');
    this.#rest = parts.pop() ?? '';
    return parts.map(eventIn).filter((event) => event !== undefined);
  }
}

function eventIn(part: string): ServerEvent | undefined {
  let id: string | undefined;
  let event = 'message';
  const data: string[] = [];
  for (const line of part.split('\n')) {
    // Not with a pattern, because some characters of a value end the line for its `.`.
    const at = line.indexOf(':');
    const [field, value] = [
      line.slice(0, Math.max(at, 0)),
      line.slice(line[at + 1] === ' ' ? at + 2 : at + 1),
    ];
    if (field === 'id') id = value;
    else if (field === 'event') event = value;
    else if (field === 'data') data.push(value);
  }
  return data.length === 0 ? undefined : { id, event, data: data.join('\n') };
}
