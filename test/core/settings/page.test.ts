import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { fixedLimitNames, limitSettingNames } from '../../../src/core/settings/limits.js';
import { settingsPage } from '../../../src/core/settings/page.js';
import { flagOf, limitVariableOf, settingNames } from '../../../src/core/settings/settings.js';

test('docs/configuration.md says what the tables say (else: npm run docs)', async () => {
  expect(await readFile(new URL('../../../docs/configuration.md', import.meta.url), 'utf8')).toBe(
    settingsPage(),
  );
});

test('the page has every setting and every limit', () => {
  const page = settingsPage();
  for (const name of settingNames) expect(page).toContain(`\`${flagOf(name)}\``);
  for (const name of limitSettingNames)
    expect(page).toContain(`\`limits.${name}\` | – | \`${limitVariableOf(name)}\``);
  for (const name of fixedLimitNames) {
    expect(page).toContain(`\`${name}\``);
    expect(page).not.toContain(limitVariableOf(name));
  }
});
