// Lays out /openapi.json as a page: one card an operation, a filter, and the table of error codes.
const documentOf = await read('/openapi.json');
const errors = await read('/reference/errors.json');
const main = document.getElementById('operations');
const contents = document.getElementById('contents');

document.getElementById('version').textContent = documentOf.info.version;
main.replaceChildren();

const cards = [];
for (const { name } of documentOf.tags) {
  addGroup(
    name,
    operationsOf(name).map((operation) => ({
      card: cardOf(operation),
      link: element('a', { href: `#${operation.operationId}` }, methodOf(operation.method), element('span', {}, operation.path)),
      words: `${operation.method} ${operation.path} ${operation.summary} ${operation.description ?? ''}`,
    })),
  );
}
addGroup(
  'Errors',
  errors.items.map((error) => ({ card: errorCard(error), link: element('a', { href: `#${error.code}` }, error.code), words: `${error.code} ${error.status} ${error.title}` })),
);
document.getElementById('filter').addEventListener('input', (event) => filter(event.target.value.trim().toLowerCase()));
if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();

/** A heading with its cards, on the page and in its contents. */
function addGroup(name, members) {
  if (members.length === 0) return;
  const heading = element('h2', {}, name);
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
  card.append(element('h3', {}, methodOf(operation.method), ` ${operation.path}`, element('span', { class: 'who' }, operation['x-principals'].join(', '))));
  card.append(element('p', {}, ...prose(operation.summary)));
  if (operation.description) card.append(element('p', { class: 'quiet' }, ...prose(operation.description)));
  if (operation.parameters.length > 0) card.append(fold('Parameters', parameterTable(operation.parameters)));
  for (const [type, { schema }] of Object.entries(operation.requestBody?.content ?? {})) card.append(fold(`Body · ${type}`, schemaOf(schema)));
  for (const [status, response] of Object.entries(operation.responses)) {
    const contents = Object.entries(response.content ?? {});
    if (status === 'default') continue;
    if (contents.length === 0) card.append(element('p', { class: 'quiet' }, `${status} · ${response.description}`));
    for (const [type, { schema }] of contents) card.append(fold(`${status} · ${type}`, schemaOf(schema)));
  }
  return card;
}

function errorCard({ code, status, exit, title }) {
  return element('article', { id: code }, element('h3', {}, code, element('span', { class: 'who' }, `HTTP ${status} · exit ${exit}`)), element('p', {}, title));
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
  return schema.type ?? 'any';
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

function fold(title, content) {
  return element('details', {}, element('summary', {}, title), content);
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
