import { test } from 'vitest';
import type { SharedConsole } from './shared.js';

export function operationsTests(shared: () => SharedConsole): void {
  test('shows health and storage, takes and verifies a backup, examines, and lists settings', async () => {
    const { page } = shared();
    await page.goto(`${shared().running.url}/console/operations`);
    await page.getByText('accepted').waitFor();
    await page.getByRole('cell', { name: 'kernel/changes' }).waitFor();
    await page.getByRole('button', { name: 'Examine' }).click();
    await page.getByText('no damage').waitFor();
    await page.getByRole('button', { name: 'Take a backup' }).click();
    await page.getByText('The backup is complete.').waitFor();
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText('verified').waitFor();
    const setting = page.getByRole('row', { name: /^log_level/ });
    await setting.getByText('STOA_LOG_LEVEL').waitFor();
  });
}
