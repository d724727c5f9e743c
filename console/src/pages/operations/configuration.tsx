/** Every setting with the source of its value. */
import { useState } from 'preact/hooks';
import { useLoaded } from '../../load.js';
import { useWorld } from '../../live/use-world.js';
import { visible } from '../../ui/format.js';
import { Reading } from '../../ui/parts.js';

export function Configuration() {
  const { view } = useWorld();
  const [words, setWords] = useState('');
  const list = useLoaded((signal) => view.stoa.admin.config({ signal }), [view.session.token]);
  const wanted = words.trim().toLowerCase();
  const rows = (list.value?.items ?? [])
    .filter(({ name, about, origin }) => `${name} ${about} ${origin}`.toLowerCase().includes(wanted))
    .toSorted((a, b) => Number(a.origin === 'default') - Number(b.origin === 'default'));
  return (
    <section class="box whole-row">
      <header class="box-head">
        <h2>Configuration</h2>
        <input
          type="search"
          placeholder="Filter settings"
          aria-label="Filter settings"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </header>
      <Reading of={list} rows={4} />
      <div class="table settings" tabIndex={0} role="region" aria-label="Settings">
        <table>
          <thead>
            <tr>
              <th>Setting</th>
              <th>Value</th>
              <th>From</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ name, value, origin, about }) => (
              <tr key={name} title={about}>
                <td class="mono">{name}</td>
                <td class="mono">{visible(JSON.stringify(value) ?? '')}</td>
                <td class={origin === 'default' ? 'muted' : ''}>{visible(origin)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
