/** Reads the text format of Prometheus. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const label = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function readMetrics(text: string): Sample[] {
  return text.split('\n').flatMap((row) => {
    const found = line.exec(row);
    if (found === null) return [];
    const [, name = '', labels = '', value = ''] = found;
    return [
      {
        name,
        labels: Object.fromEntries(
          Array.from(labels.matchAll(label), ([, key = '', text = '']) => [key, text]),
        ),
        value: Number(value),
      },
    ];
  });
}
