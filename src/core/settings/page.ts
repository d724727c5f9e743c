/** The page of every setting and limit, made from the tables that the program itself reads. */
import { type LimitName, limitBoundsOf, limitDefinitions } from './limits.js';
import { flagOf, keyOf, limitVariableOf, settingNames, settings, variableOf } from './settings.js';

/** `docs/configuration.md`, whole. `npm run docs` writes it and a test holds it to the tables. */
export function settingsPage(): string {
  const settingRows = settingNames.map((name) => {
    const { about, default: fallback, type } = settings[name];
    return `| \`${keyOf(name)}\` | \`${flagOf(name)}\` | \`${variableOf(name)}\` | ${valueText(fallback)} | ${cell(about)} (${cell(type.about)}) |`;
  });
  const limitRows = Object.entries(limitDefinitions).map(
    ([name, row]) =>
      `| \`${name}\` | \`${limitVariableOf(name)}\` | ${row.default.toLocaleString('en')} | ${cell(row.about)}${boundsText(name as LimitName)} |`,
  ); // Object.entries forgets the type of the keys.
  return `${introduction}
## Settings

| key in the file | flag of \`stoa up\` | variable | default | meaning |
|---|---|---|---|---|
${settingRows.join('\n')}

## Limits

Each is set by its name, in the file under \`limits\` or by its variable.

| limit | variable | default | meaning |
|---|---|---|---|
${limitRows.join('\n')}
`;
}

const introduction = `<!-- Made by "npm run docs" from src/core/settings/settings.ts and limits.ts. -->
# Configuration

\`\`\`console
$ stoa up --data ./data --port 9000          # flags come first,
$ STOA_PORT=9000 stoa up                     # then variables,
$ cat stoa.config.json                       # then the file in the working directory (or --config FILE)
{ "port": 9000, "sync_writes": true, "limits": { "agentsPerUserMax": 50 } }
$ stoa config                                # prints every value and where it came from
\`\`\`

What none of them sets has its default. A name that is not known, in any of the three places, is an
error that says which name was likely meant: a setting that is misspelt never passes in silence.
An empty variable counts as not set. Passwords inside URLs are not printed.

A server listens on 127.0.0.1. On any other address it starts only with \`tls_cert\` and \`tls_key\`,
or with \`allow_public\`, which is for a proxy in front that adds TLS.

Commands find the running server by the data directory, and act as its operator. These variables
are for commands, not for servers: \`STOA_URL\` and \`STOA_TOKEN\` name another server, \`STOA_USER\` and
\`STOA_AGENT\` say for whom a command acts, and \`STOA_CONFIG\` names the file.
`;

function valueText(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return '–';
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function boundsText(name: LimitName): string {
  const { min, max } = limitBoundsOf(name);
  if (max !== Number.MAX_SAFE_INTEGER) return ` (from ${min} to ${max.toLocaleString('en')})`;
  return min === 0 ? '' : ` (${min} or more)`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
