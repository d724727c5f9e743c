/** Where the keyboard is, and where it goes on. */

/** Keys belong to the field while somebody types. */
export function isTyping(target: EventTarget | null): target is HTMLElement {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/**
 * After something that had the focus is gone: to what opened it, or to the page if that is gone too. Waits for the
 * next picture, in which the page is complete again.
 */
export function returnFocus(opener: Element | null): void {
  requestAnimationFrame(() => {
    if (document.activeElement !== document.body) return;
    const isThere = opener instanceof HTMLElement && opener.isConnected && opener !== document.body;
    (isThere ? opener : document.querySelector<HTMLElement>('#page'))?.focus();
  });
}
