/** Questions to the person before something happens, and sentences after it. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Observable, useObservable } from '../observable.js';
import { type Failure, failureOf } from '../stoa.js';
import { returnFocus } from './focus.js';
import { Button, Problem } from './parts.js';

export interface Question {
  readonly title: string;
  readonly text?: string;
  /** A field for a text; the value is given to `act`. */
  readonly input?: {
    readonly label: string;
    readonly value?: string;
    readonly isLong?: boolean;
    readonly optional?: boolean;
  };
  readonly action: string;
  readonly isDangerous?: boolean;
  act(value: string): Promise<unknown>;
}

const question = new Observable<Question | undefined>(undefined);
const notice = new Observable<{ text: string; at: number } | undefined>(undefined);

/** Asks before it acts. The dialog stays open, with the reason, when the action is refused. */
export function ask(asked: Question): void {
  question.set(asked);
}

export function say(text: string): void {
  notice.set({ text, at: Date.now() });
}

/** Acts at once; a refusal is shown as a dialog. */
export async function attempt(action: () => Promise<unknown>, done: string): Promise<void> {
  try {
    await action();
    say(done);
  } catch (error) {
    refused.set(failureOf(error));
  }
}

const refused = new Observable<Failure | undefined>(undefined);

export function Dialogs() {
  const asked = useObservable(question);
  const failure = useObservable(refused);
  return (
    <>
      {asked === undefined ? null : <QuestionDialog key={asked.title} asked={asked} />}
      {failure === undefined ? null : (
        <Modal title="The request was refused" onClose={() => refused.set(undefined)}>
          <Problem failure={failure} />
          <div class="actions">
            <Button kind="primary" onClick={() => refused.set(undefined)}>
              Close
            </Button>
          </div>
        </Modal>
      )}
      <Notice />
    </>
  );
}

function QuestionDialog({ asked }: { asked: Question }) {
  const [value, setValue] = useState(asked.input?.value ?? '');
  const [isActing, setActing] = useState(false);
  const [failure, setFailure] = useState<Failure | undefined>(undefined);
  const close = (): void => question.set(undefined);
  const act = async (): Promise<void> => {
    setActing(true);
    try {
      await asked.act(value);
      close();
    } catch (error) {
      setFailure(failureOf(error));
      setActing(false);
    }
  };
  const { input } = asked;
  const Entry = input?.isLong === true ? 'textarea' : 'input';
  const isBlank = input !== undefined && input.optional !== true && value.trim() === '';
  return (
    <Modal title={asked.title} onClose={close}>
      {asked.text === undefined ? null : <p>{asked.text}</p>}
      {input === undefined ? null : (
        <label class="entry">
          <span>{input.label}</span>
          <Entry
            value={value}
            {...(input.isLong === true && { rows: 5 })}
            onInput={(event: Event) => setValue((event.currentTarget as HTMLInputElement).value)}
            onKeyDown={(event: KeyboardEvent) => {
              const isSent =
                event.key === 'Enter' && (input.isLong !== true || event.ctrlKey || event.metaKey);
              if (isSent && !isBlank && !isActing) void act();
            }}
          />
        </label>
      )}
      <Problem failure={failure} />
      <div class="actions">
        <Button onClick={close}>Back</Button>
        <Button
          kind={asked.isDangerous === true ? 'danger' : 'primary'}
          disabled={isActing || isBlank}
          onClick={() => void act()}
        >
          {asked.action}
        </Button>
      </div>
    </Modal>
  );
}

export function Modal(props: {
  title: string;
  onClose(): void;
  children: preact.ComponentChildren;
  isWide?: boolean;
  isPlain?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  // Before the next key, so that a word typed right after "/" loses no letter.
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>('input, textarea, .primary, .danger')?.focus();
    return () => {
      dialog?.close();
      returnFocus(opener);
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={`modal ${props.isWide === true ? 'wide' : ''}`}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) props.onClose();
      }}
    >
      <div class="modal-body">
        {props.isPlain === true ? null : <h2>{props.title}</h2>}
        {props.children}
      </div>
    </dialog>
  );
}

const noticeMs = 4_000;

function Notice() {
  const said = useObservable(notice);
  useEffect(() => {
    if (said === undefined) return undefined;
    const timer = setTimeout(() => notice.set(undefined), noticeMs);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <div class="notice" role="status" aria-live="polite">
      {said === undefined ? null : <span>{said.text}</span>}
    </div>
  );
}
