/** A JSON value as a tree that opens part by part, so that a large value costs only what is seen. */
import { useState } from 'preact/hooks';
import type { JsonValue } from '../../../src/client/index.js';
import { countText, visible } from './format.js';

const childrenShown = 100;
const textShown = 2_000;

export function JsonTree({ value }: { value: JsonValue }) {
  return (
    <div class="json" role="group" aria-label="Value">
      <Node name={undefined} value={value} depth={0} />
    </div>
  );
}

function Node({ name, value, depth }: { name: string | undefined; value: JsonValue; depth: number }) {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : undefined;
  const [isOpen, setOpen] = useState(depth < 2 && (entries?.length ?? 0) <= 50);
  const [shown, setShown] = useState(childrenShown);
  const label = name === undefined ? null : <span class="json-name">{visible(name)}: </span>;
  if (entries === undefined)
    return (
      <div class="json-line">
        {label}
        <Leaf value={value} />
      </div>
    );
  const words = Array.isArray(value) ? `[${countText(entries.length)}]` : `{${countText(entries.length)}}`;
  return (
    <div class="json-node">
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {label}
        <span class="muted">{words}</span>
      </button>
      {isOpen ? (
        <div class="json-children">
          {entries.slice(0, shown).map(([key, child]) => (
            <Node key={key} name={key} value={child} depth={depth + 1} />
          ))}
          {entries.length > shown ? (
            <button type="button" class="button quiet" onClick={() => setShown(shown + 1_000)}>
              Show more of {countText(entries.length)}
            </button>
          ) : null}
        </div>
      ) : null}
    </div>
  );
}

function Leaf({ value }: { value: JsonValue }) {
  if (typeof value !== 'string')
    return <span class={`json-${value === null ? 'null' : typeof value}`}>{String(value)}</span>;
  const isCut = value.length > textShown;
  return (
    <span class="json-string">
      "{visible(value.slice(0, textShown))}"
      {isCut ? <span class="muted"> … {countText(value.length)} characters</span> : null}
    </span>
  );
}
