/** Small parts that every page uses. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Loaded } from '../load.js';
import type { Failure } from '../stoa.js';

const paths: Readonly<Record<string, string>> = {
  fleet: 'M4 5h16v5H4zM4 14h16v5H4zM7 7.500h.01M7 16.500h.01',
  work: 'M4 5h5v14H4zM10.500 5h5v9h-5zM17 5h3v6h-3z',
  data: 'M4 6.500C4 5 7.500 4 12 4s8 1 8 2.500S16.500 9 12 9 4 8 4 6.500zm0 0v11C4 19 7.500 20 12 20s8-1 8-2.500v-11M4 12c0 1.500 3.500 2.500 8 2.500s8-1 8-2.500',
  rooms: 'M4 5h16v11h-9l-4 3.500V16H4z',
  feed: 'M4 6h16M4 12h16M4 18h10',
  operations:
    'M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM12 3v3M12 18v3M3 12h3M18 12h3M5.600 5.600l2.100 2.100M16.300 16.300l2.100 2.100M5.600 18.400l2.100-2.100M16.300 7.700l2.100-2.100',
  search: 'M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.500 15.500 20 20',
  keys: 'M3 6h18v12H3zM7 10h.01M12 10h.01M17 10h.01M8 14h8',
  close: 'M6 6l12 12M18 6 6 18',
  copy: 'M8 8h11v12H8zM5 16V4h11',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  back: 'M14 6l-6 6 6 6',
  right: 'M9 6l6 6-6 6',
  down: 'M6 9l6 6 6-6',
  alert: 'M12 4 2.500 20h19zM12 10v4M12 17h.01',
  link: 'M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1',
  lock: 'M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3',
  check: 'M5 12.500l4.500 4.500L19 7.500',
};

export function Icon({ name, title }: { name: string; title?: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden={title === undefined} focusable="false">
      {title === undefined ? null : <title>{title}</title>}
      <path d={paths[name] ?? ''} />
    </svg>
  );
}

export function Button(props: {
  children: ComponentChildren;
  onClick(): unknown;
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  disabled?: boolean | undefined;
  title?: string;
  label?: string;
  pressed?: boolean;
}) {
  const { children, onClick, kind = 'plain', disabled, title, label, pressed } = props;
  return (
    <button
      type="button"
      class={`button ${kind}`}
      onClick={onClick}
      disabled={disabled}
      title={title}
      aria-label={label}
      aria-pressed={pressed}
    >
      {children}
    </button>
  );
}

/** A dot with a word: colour is never the only sign. */
export function Status({ name, tone }: { name: string; tone: Tone }) {
  return <span class={`status ${tone}`}>{name.replaceAll('_', ' ')}</span>;
}

export type Tone = 'good' | 'warn' | 'bad' | 'calm' | 'busy';

/** Text to copy, with the button that copies it. */
export function Copyable({ text, label }: { text: string; label?: string }) {
  return (
    <span class="copyable">
      <code>{text}</code>
      <CopyButton text={text} label={label ?? 'Copy'} />
    </span>
  );
}

export function CopyButton(props: { text: string; label: string; words?: string; icon?: 'copy' | 'link' }) {
  const { text, label, words, icon = 'copy' } = props;
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <button type="button" class="button quiet" aria-label={label} title={label} onClick={() => void copy()}>
      <Icon name={isCopied ? 'check' : icon} />
      {words === undefined ? null : <span>{isCopied ? 'Copied' : words}</span>}
    </button>
  );
}

/** What to do next where there is nothing yet. */
export function Empty({
  title,
  children,
  command,
}: {
  title: string;
  children?: ComponentChildren;
  command?: string;
}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children === undefined ? null : <p>{children}</p>}
      {command === undefined ? null : <Copyable text={command} label="Copy the command" />}
    </div>
  );
}

/** Nothing as long as nothing has failed. */
export function Problem({ failure, onRetry }: { failure: Failure | undefined; onRetry?: () => void }) {
  if (failure === undefined) return null;
  return (
    <div class="problem" role="alert">
      <Icon name="alert" />
      <div>
        <p>{failure.message}</p>
        {failure.fix === null ? null : <p class="muted">{failure.fix}</p>}
      </div>
      {onRetry === undefined ? null : <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** A place for something that is being read. Reads end, so this never stays. */
export function Loading({ rows = 6 }: { rows?: number | undefined }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <div class="loading-row" key={at} />
      ))}
    </div>
  );
}

/** What failed of a read, or that it is not done yet. */
export function Reading({ of, rows }: { of: Loaded<unknown>; rows?: number }) {
  return (
    <>
      <Problem failure={of.failure} onRetry={of.reload} />
      {of.isLoading ? <Loading rows={rows} /> : null}
    </>
  );
}

export function Field({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Tabs<Name extends string>(props: {
  label: string;
  names: readonly (readonly [Name, string])[];
  chosen: Name;
  onChoose(name: Name): void;
}) {
  return (
    <div class="tabs" role="group" aria-label={props.label}>
      {props.names.map(([name, text]) => (
        <button
          type="button"
          key={name}
          class="tab"
          aria-pressed={name === props.chosen}
          onClick={() => props.onChoose(name)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
