/** Numbers and names as people read them. */
const countFormat = new Intl.NumberFormat('en');

export function countText(count: number): string {
  return countFormat.format(count);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

const sizes = ['B', 'KB', 'MB', 'GB', 'TB'];

export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1_000 && unit < sizes.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${sizes[unit]}`;
}

/** `input_required` as `Input required`. */
export function sentenceCase(name: string): string {
  return (name.slice(0, 1).toUpperCase() + name.slice(1)).replaceAll('_', ' ');
}

/** Enough of an id to tell it from others. */
export function shortId(id: string): string {
  return id.length > 14 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id;
}

/** Characters that change the direction or the look of the text around them, as visible marks. */
const invisible = /(?![\t\n\r\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]/gu;

export function visible(text: string): string {
  return text.replaceAll(
    invisible,
    (found) => `⟨U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}
