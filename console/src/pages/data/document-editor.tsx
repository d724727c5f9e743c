/** Changes a value. If somebody else changed it meanwhile, both versions are shown and the person decides. */
import { useState } from 'preact/hooks';
import { type DataDocument, type JsonValue, StoaError } from '../../../../src/client/index.js';
import { useWorld } from '../../live/use-world.js';
import { type Failure, failureOf } from '../../stoa.js';
import { say } from '../../ui/dialog.js';
import { visible } from '../../ui/format.js';
import { Button, Problem } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';

export function DocumentEditor({ document: found, onDone }: { document: DataDocument; onDone(): void }) {
  const { view } = useWorld();
  const [text, setText] = useState(() => JSON.stringify(found.value, null, 2));
  const [seconds, setSeconds] = useState('');
  /** The version that the person has seen. */
  const [base, setBase] = useState(found.version);
  const [conflict, setConflict] = useState<DataDocument | undefined>(undefined);
  const [failure, setFailure] = useState<Failure | undefined>(undefined);
  const [isSaving, setSaving] = useState(false);
  const parsed = parse(text);
  const save = async (version: number): Promise<void> => {
    if (!('value' in parsed)) return;
    setSaving(true);
    setFailure(undefined);
    try {
      await view.stoa.data(found.namespace).set(found.key, parsed.value, {
        ifVersion: version,
        ...(seconds.trim() !== '' && { ttl: Number(seconds) }),
      });
      say('Saved.');
      onDone();
    } catch (error) {
      if (error instanceof StoaError && error.code === 'version_conflict')
        setConflict(await view.stoa.data(found.namespace).getEntry(found.key));
      else setFailure(failureOf(error));
    }
    setSaving(false);
  };
  const isSecondsWrong = seconds.trim() !== '' && !(Number(seconds) > 0);
  return (
    <div class="editor">
      {conflict === undefined ? null : (
        <div class="conflict" role="alert">
          <p>
            <strong>
              Version {conflict.version} was written <Ago at={conflict.updatedAt} /> by{' '}
              {visible(conflict.updatedByAgent ?? 'no named agent')}. You began with version {base}.
            </strong>
          </p>
          <p class="muted">Stored now:</p>
          <pre tabIndex={0}>{visible(JSON.stringify(conflict.value, null, 2).slice(0, 20_000))}</pre>
          <div class="actions">
            <Button
              onClick={() => {
                setText(JSON.stringify(conflict.value, null, 2));
                setBase(conflict.version);
                setConflict(undefined);
              }}
            >
              Keep the stored value
            </Button>
            <Button
              kind="danger"
              onClick={() => {
                setBase(conflict.version);
                setConflict(undefined);
                void save(conflict.version);
              }}
            >
              Overwrite with mine
            </Button>
          </div>
        </div>
      )}
      <label class="entry">
        <span>{conflict === undefined ? 'Value as JSON' : 'Yours'}</span>
        <textarea
          class="mono"
          rows={conflict === undefined ? 16 : 8}
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <p class="complaint" role="status">
        {'complaint' in parsed ? `Not JSON: ${parsed.complaint}` : ''}
      </p>
      <label class="entry">
        <span>Expires in seconds (empty: as it is now)</span>
        <input
          inputMode="numeric"
          value={seconds}
          onInput={(event) => setSeconds(event.currentTarget.value)}
        />
      </label>
      <Problem failure={failure} />
      <div class="actions">
        <Button onClick={onDone}>Discard</Button>
        <Button
          kind="primary"
          disabled={'complaint' in parsed || isSaving || isSecondsWrong}
          onClick={() => void save(base)}
        >
          Save
        </Button>
      </div>
    </div>
  );
}

function parse(text: string): { value: JsonValue } | { complaint: string } {
  try {
    return { value: JSON.parse(text) as JsonValue }; // JSON.parse answers nothing else.
  } catch (error) {
    return { complaint: error instanceof Error ? error.message : String(error) };
  }
}
