// Lays out /openapi.json as a page: one card an operation, a filter, and the table of error codes.
const documentOf = await read('/openapi.json');
const errors = await read('/reference/errors.json');
const main = document.getElementById('operations');
const contents = document.getElementById('contents');

document.getElementById('version').textContent = documentOf.info.version;
main.replaceChildren();

const cards = [];
for (const { name } of documentOf.tags) {
  const operations = operationsOf(name);
  if (operations.length === 0) continue;
  const heading = element('h2', {}, name);
  const list = element('h2', {}, name);
  main.append(heading);
  contents.append(list);
  const group = { heading, list, cards: [] };
  for (const operation of operations) {
    const card = cardOf(operation);
    const link = element('a', { href: `#${operation.operationId}` }, methodOf(operation.method), element('span', {}, operation.path));
    main.append(card);
    contents.append(link);
    group.cards.push({ card, link, text: `${operation.method} ${operation.path} ${operation.summary} ${operation.description ?? ''}`.toLowerCase() });
  }
  cards.push(group);
}
main.append(element('h2', {}, 'Errors'), ...errors.items.map(errorCard));
document.getElementById('filter').addEventListener('input', (event) => filter(event.target.value.trim().toLowerCase()));
if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();

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
  card.append(element('p', {}, operation.summary));
  if (operation.description) card.append(element('p', { class: 'quiet' }, operation.description));
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
      element('tr', {}, element('td', {}, name), element('td', {}, `${place}${required ? ', required' : ''}. `, description ?? schema?.description ?? '')),
    ),
  );
}

function schemaOf(schema) {
  return element('pre', {}, sketch(schema, 0));
}

/** A schema as the JSON that it describes, types in the place of values. */
function sketch(schema, depth) {
  if (schema.$ref) return depth > 6 ? nameOf(schema) : sketch(documentOf.components.schemas[nameOf(schema)], depth);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((choice) => sketch(choice, depth)).join(' | ');
  if (schema.type === 'array') return `[${sketch(schema.items ?? {}, depth)}, …]`;
  if (schema.properties) {
    const pad = '  '.repeat(depth + 1);
    const required = new Set(schema.required ?? []);
    const lines = Object.entries(schema.properties).map(([name, inner]) => `${pad}${name}${required.has(name) ? '' : '?'}: ${sketch(inner, depth + 1)}${inner.description ? `   — ${inner.description}` : ''}`);
    return `{\n${lines.join('\n')}\n${'  '.repeat(depth)}}`;
  }
  if (typeof schema.additionalProperties === 'object') return `{ name: ${sketch(schema.additionalProperties, depth)} }`;
  return schema.type ?? 'any';
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
