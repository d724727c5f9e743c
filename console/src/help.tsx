/** The list of keys. */
import { Observable, useObservable } from './observable.js';
import { Modal } from './ui/dialog.js';
import { Button } from './ui/parts.js';

const isOpen = new Observable(false);

export function openHelp(): void {
  isOpen.set(true);
}

const keys: readonly (readonly [about: string, ...keys: readonly string[]])[] = [
  ['search everything', '/'],
  ['next and previous row', 'j', 'k', '↓', '↑'],
  ['next and previous column; open and close a folder', 'l', 'h', '→', '←'],
  ['first and last row', 'Home', 'End'],
  ['open the row', 'Enter'],
  ['from the row into its panel', 'Tab'],
  ['leave the field, then close the panel', 'Esc'],
  ['send a text of several lines', 'Ctrl Enter'],
  ['this list', '?'],
];

export function Help({ pages }: { pages: readonly { readonly title: string; readonly letter: string }[] }) {
  if (!useObservable(isOpen)) return null;
  const close = (): void => isOpen.set(false);
  return (
    <Modal title="Keys" onClose={close}>
      <dl class="keys">
        {keys.map(([about, ...each]) => (
          <KeyLine key={about} keys={each} about={about} />
        ))}
        {pages.map(({ title, letter }) => (
          <KeyLine key={title} keys={[`g ${letter}`]} about={`go to ${title}`} />
        ))}
      </dl>
      <div class="actions">
        <Button kind="primary" onClick={close}>
          Close
        </Button>
      </div>
    </Modal>
  );
}

function KeyLine({ keys: each, about }: { keys: readonly string[]; about: string }) {
  return (
    <div>
      <dt>
        {each.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{about}</dd>
    </div>
  );
}
