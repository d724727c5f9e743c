/** The rules for names of agents and rooms. */

const agentNameCharactersMax = 100;
/** Control characters, and the marks that reverse the direction of the text around them. */
const controls = /[\p{Cc}\u202A-\u202E\u2066-\u2069]/gu;
const roomName = /^[A-Za-z0-9_-]{1,50}$/;
/** RFC 5322's dot-atom at a host name of two labels or more. */
const email =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;

/** Half of a surrogate pair becomes the replacement character. */
export function wellFormed(text: string): string {
  return text.toWellFormed();
}

/** Trimmed, without control characters, at most a hundred characters. Null if nothing is left. */
export function agentNameOf(text: string): string | null {
  const clean = wellFormed(text).replaceAll(controls, '').trim();
  const cut = [...clean].slice(0, agentNameCharactersMax).join('').trimEnd();
  return cut === '' ? null : cut;
}

/** The normal form of a room's name, or undefined if the name is not allowed. */
export function roomNameOf(text: string): string | undefined {
  const name = text.normalize('NFC');
  return roomName.test(name) ? name : undefined;
}

export function isEmail(text: string, bytesMax: number): boolean {
  return Buffer.byteLength(text) <= bytesMax && email.test(text);
}
