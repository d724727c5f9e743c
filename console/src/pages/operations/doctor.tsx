/** The doctor: finds rows that contradict each other, and repairs them. */
import { useState } from 'preact/hooks';
import { useWorld } from '../../live/use-world.js';
import { attempt } from '../../ui/dialog.js';
import { plural, visible } from '../../ui/format.js';
import { Button, Status } from '../../ui/parts.js';

interface Finding {
  readonly family: string;
  readonly key: string;
  readonly problem: string;
  readonly repaired: boolean;
}

export function Doctor() {
  const { view } = useWorld();
  const [result, setResult] = useState<
    { found: number; remaining: number; findings: readonly Finding[] } | undefined
  >(undefined);
  const [isBusy, setBusy] = useState(false);
  const examine = async (repair: boolean): Promise<void> => {
    setBusy(true);
    await attempt(
      async () => setResult(await view.stoa.admin.examine({ repair })),
      'The store was examined.',
    );
    setBusy(false);
  };
  return (
    <section class="box">
      <header class="box-head">
        <h2>Doctor</h2>
        <Button disabled={isBusy} onClick={() => void examine(false)}>
          Examine
        </Button>
        {result !== undefined && result.remaining > 0 ? (
          <Button kind="danger" disabled={isBusy} onClick={() => void examine(true)}>
            Repair
          </Button>
        ) : null}
      </header>
      {result === undefined ? (
        <p class="muted">Compares every record with its index rows, while the server runs.</p>
      ) : (
        <>
          <p>
            <Status
              name={result.remaining === 0 ? 'no damage' : plural(result.remaining, 'finding')}
              tone={result.remaining === 0 ? 'good' : 'bad'}
            />
          </p>
          <ul>
            {result.findings.slice(0, 50).map(({ family, key, problem, repaired }) => (
              <li key={`${family} ${key} ${problem}`}>
                <code>{family}</code> {visible(problem)} {repaired ? 'Repaired.' : ''}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
