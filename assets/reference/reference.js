// Lays out /openapi.json as a page: one card an operation, a filter, and the table of error codes.
const documentOf = await read('/openapi.json');
const errors = await read('/reference/errors.json');
const main = document.getElementById('operations');
const contents = document.getElementById('contents');

document.getElementById('version').textContent = documentOf.info.version;
main.replaceChildren();

const cards = [];
for (const { name, description } of documentOf.tags) {
  addGroup(
    name,
    description,
    operationsOf(name).map((operation) => ({
      card: cardOf(operation),
      link: element('a', { href: `#${operation.operationId}` }, methodOf(operation.method), element('span', {}, ...breakable(operation.path))),
      words: `${operation.operationId} ${operation.method} ${operation.path} ${operation.summary} ${operation.description ?? ''}`,
    })),
  );
}
addGroup(
  'Errors',
  'What each code means, and what to do about it.',
  errors.items.map((error) => ({
    card: errorCard(error),
    link: element('a', { href: `#${error.code}` }, element('span', {}, ...breakable(error.code))),
    words: `${error.code} ${error.status} ${error.title} ${error.fix}`,
  })),
);
document.getElementById('filter').addEventListener('input', (event) => filter(event.target.value.trim().toLowerCase()));
if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();

/** A heading with its cards, on the page and in its contents. */
function addGroup(name, description, members) {
  if (members.length === 0) return;
  const heading = element('h2', {}, name, ...(description ? [element('small', {}, description)] : []));
  const list = element('h2', {}, name);
  main.append(heading, ...members.map(({ card }) => card));
  contents.append(list, ...members.map(({ link }) => link));
  cards.push({ heading, list, cards: members.map(({ card, link, words }) => ({ card, link, text: words.toLowerCase() })) });
}

async function read(url) {
  const response = await fetch(url);
  if (!response.ok) {
    document.getElementById('state').textContent = `${url} answered ${response.status}.`;
    throw new Error(`${url} answered ${response.status}`);
  }
  return response.json();
}

function operationsOf(tag) {
  return Object.entries(documentOf.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.tags.includes(tag))
      .map(([method, operation]) => ({ path, method, ...operation })),
  );
}

function cardOf(operation) {
  const card = element('article', { id: operation.operationId });
  card.append(
    element('h3', {}, methodOf(operation.method), ' ', ...breakable(operation.path)),
    element('p', { class: 'who' }, element('code', {}, operation.operationId), ` · ${operation['x-principals'].join(', ')}`),
    element('p', {}, ...prose(operation.summary)),
  );
  if (operation.description !== `${operation.summary}.`) card.append(element('p', { class: 'quiet' }, ...prose(operation.description)));
  if (operation['x-codeSamples'].length > 0) card.append(samplesOf(operation['x-codeSamples']));
  if (operation.parameters.length > 0) card.append(fold('Parameters', parameterTable(operation.parameters)));
  for (const [type, { schema }] of Object.entries(operation.requestBody?.content ?? {})) card.append(fold(`Body · ${type}`, schemaOf(schema)));
  for (const [status, response] of Object.entries(operation.responses)) card.append(...answerOf(status, response));
  card.append(fold('Errors', errorTable(operation)));
  return card;
}

/** The example of an operation: one of curl, client and command is shown, with a button that copies it. */
function samplesOf(samples) {
  const shown = element('code', {});
  const copy = element('button', { type: 'button', class: 'copy' }, 'Copy');
  const tabs = samples.map(({ label, source }) => {
    const tab = element('button', { type: 'button', 'aria-pressed': 'false' }, label);
    tab.addEventListener('click', () => show(tab, source));
    return tab;
  });
  const show = (chosen, source) => {
    for (const tab of tabs) tab.setAttribute('aria-pressed', String(tab === chosen));
    // The address of this server in place of the variable: the command runs as it is, with a token.
    shown.textContent = source.replaceAll('$STOA_URL', location.origin);
    copy.textContent = 'Copy';
  };
  copy.addEventListener('click', async () => {
    copy.textContent = (await copied(shown)) ? 'Copied' : 'Selected';
  });
  show(tabs[0], samples[0].source);
  return element('div', { class: 'sample' }, element('div', { class: 'tabs', role: 'group', 'aria-label': 'Example' }, ...tabs, copy), element('pre', {}, shown));
}

/** Copies a text. Where the browser refuses, as on a page without TLS, the text is selected instead. */
async function copied(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(node);
    return false;
  }
}

/** A successful answer: its example if there is one, and its schema. */
function answerOf(status, response) {
  if (!status.startsWith('2') && !status.startsWith('3')) return [];
  const contents = Object.entries(response.content ?? {});
  if (contents.length === 0) return [element('p', { class: 'quiet' }, `${status} · ${response.description}`)];
  return contents.map(([type, { schema, example }]) => {
    const title = `${status} · ${type}`;
    if (example === undefined) return fold(title, schemaOf(schema));
    return fold(title, element('pre', {}, JSON.stringify(example, null, 2)), fold('Schema', schemaOf(schema)));
  });
}

function errorTable({ responses }) {
  const codes = Object.values(responses).flatMap((response) => response['x-error-codes'] ?? []);
  const rows = codes.map((code) => {
    const { status, title, fix } = errors.items.find((error) => error.code === code);
    return element('tr', {}, element('td', {}, element('a', { href: `#${code}` }, ...breakable(code))), element('td', {}, `${status}. ${title}. `, ...prose(fix)));
  });
  return element('table', {}, ...rows);
}

function errorCard({ code, status, exit, title, fix }) {
  return element('article', { id: code }, element('h3', {}, ...breakable(code)), element('p', { class: 'who' }, `HTTP ${status} · exit ${exit}`), element('p', {}, `${title}.`), element('p', { class: 'quiet' }, ...prose(fix)));
}

/** A path or a code that may wrap after a slash or an underscore, never inside of a word. */
function breakable(text) {
  return text.split(/(?<=[/_])/).flatMap((part, index) => (index === 0 ? [part] : [document.createElement('wbr'), part]));
}

function parameterTable(parameters) {
  return element(
    'table',
    {},
    ...parameters.map(({ name, in: place, required, description, schema }) =>
      element('tr', {}, element('td', {}, name), element('td', {}, `${place}${required ? ', required' : ''}. `, ...prose(description ?? schema?.description ?? ''))),
    ),
  );
}

function schemaOf(schema) {
  return element('pre', {}, sketch(schema, 0));
}

/** A schema as the JSON that it describes, types in the place of values; inside itself it is only named. */
function sketch(schema, depth, within = []) {
  if (schema.$ref) {
    const name = nameOf(schema);
    return within.includes(name) ? name : sketch(documentOf.components.schemas[name], depth, [...within, name]);
  }
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((choice) => sketch(choice, depth, within)).join(' | ');
  if (schema.type === 'array') return `[${sketch(schema.items ?? {}, depth, within)}, …]`;
  if (schema.properties) {
    const pad = '  '.repeat(depth + 1);
    const required = new Set(schema.required ?? []);
    const lines = Object.entries(schema.properties).map(([name, inner]) => `${pad}${name}${required.has(name) ? '' : '?'}: ${sketch(inner, depth + 1, within)}${inner.description ? `   — ${inner.description}` : ''}`);
    return `{\n${lines.join('\n')}\n${'  '.repeat(depth)}}`;
  }
  if (typeof schema.additionalProperties === 'object') return `{ name: ${sketch(schema.additionalProperties, depth, within)} }`;
  return Array.isArray(schema.type) ? schema.type.join(' | ') : (schema.type ?? 'any');
}

/** What stands between backticks is code. */
function prose(text) {
  return text.split('`').map((part, index) => (index % 2 === 1 ? element('code', {}, part) : part));
}

function nameOf(schema) {
  return schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1);
}

function filter(words) {
  for (const { heading, list, cards: members } of cards) {
    let shown = 0;
    for (const { card, link, text } of members) {
      const fits = words.split(/\s+/).every((word) => text.includes(word));
      card.hidden = link.hidden = !fits;
      link.style.display = fits ? '' : 'none';
      if (fits) shown += 1;
    }
    heading.hidden = list.hidden = shown === 0;
  }
}

function methodOf(method) {
  return element('span', { class: `method ${method}` }, method.toUpperCase());
}

function fold(title, ...contents) {
  return element('details', {}, element('summary', {}, title), ...contents);
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
