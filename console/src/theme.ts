/** Light or dark: as the system is set, until the person chooses. */
import { Observable } from './observable.js';

export type Theme = 'system' | 'light' | 'dark';

const key = 'stoa.theme';
const themes: readonly Theme[] = ['system', 'light', 'dark'];

export const theme = new Observable<Theme>(
  themes.find((name) => name === localStorage.getItem(key)) ?? 'system',
);

export function startTheme(): void {
  const show = (): void => {
    const { value } = theme;
    if (value === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = value;
  };
  theme.subscribe(show);
  show();
}

export function nextTheme(): void {
  const next = themes[(themes.indexOf(theme.value) + 1) % themes.length] ?? 'system';
  localStorage.setItem(key, next);
  theme.set(next);
}
