/** The panel beside a list, with one record. On a narrow screen it covers the list. */
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect } from 'preact/hooks';
import { navigate } from '../router.js';
import { isTyping, returnFocus } from './focus.js';
import { Icon } from './parts.js';

export function Drawer(props: {
  title: ComponentChildren;
  label: string;
  /** The address without the record. */
  closeTo: string;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  const { closeTo } = props;
  useLayoutEffect(() => {
    const opener = document.activeElement;
    return () => returnFocus(opener);
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
      // What somebody has typed is not lost: the first Esc leaves the field, the next one closes.
      if (isTyping(event.target)) event.target.blur();
      else navigate(closeTo);
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [closeTo]);
  return (
    <aside class="drawer" aria-label={props.label}>
      <header class="drawer-head">
        <h2>{props.title}</h2>
        <a class="button quiet" href={closeTo} aria-label="Close" title="Close (Esc)">
          <Icon name="close" />
        </a>
      </header>
      {props.actions === undefined ? null : <div class="drawer-actions">{props.actions}</div>}
      <div class="drawer-body" tabIndex={0} role="region" aria-label={`${props.label}: details`}>
        {props.children}
      </div>
    </aside>
  );
}
