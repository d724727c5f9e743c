/** The page of every setting and limit, made from the tables that the program itself reads. */
import { type LimitName, isLimitSetting, limitBoundsOf, limitDefinitions, limitGroups } from './limits.js';
import {
  type SettingName,
  flagOf,
  keyOf,
  limitVariableOf,
  settingGroups,
  settings,
  variableOf,
} from './settings.js';
import { groupedDigits } from '../text/grouped-digits.js';

type GroupName = keyof typeof limitGroups;

const titles: Readonly<Record<GroupName, string>> = {
  server: 'Server',
  storage: 'Storage',
  feed: 'Change feed',
  commit: 'Commits',
  data: 'Data store',
  registry: 'Registry',
  workspaces: 'Workspaces',
  locks: 'Locks',
  messaging: 'Messaging',
  find: 'Search',
  vectors: 'Search by meaning',
  rates: 'Rate limits',
  security: 'Security',
  operations: 'Operations',
  mcp: 'MCP',
};
const groupNames = Object.keys(titles) as readonly GroupName[]; // Object.keys forgets the type of the keys.

/** The complete `docs/configuration.md`. `npm run docs` writes it; a test compares it with the tables. */
export function settingsPage(): string {
  return [
    introduction,
    ...groupNames.flatMap(settingTable),
    fixedIntroduction,
    ...groupNames.flatMap(fixedTable),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n');
}

const introduction = `<!-- Made by "npm run docs" from src/core/settings/. -->
# Configuration

\`\`\`console
$ stoa up --data ./data --port 9000          # flags come first,
$ STOA_PORT=9000 stoa up                     # then variables,
$ cat stoa.config.json                       # then the file in the working directory (or --config FILE)
{ "port": 9000, "sync_writes": true, "limits": { "agentsPerUserMax": 50 } }
$ stoa config                                # prints every value and where it came from
\`\`\`

A setting that is not given has its default. An unknown name, in any of the three places, is an error
that suggests the nearest known name. An empty variable counts as not set. Passwords inside URLs are
not printed.

A server listens on 127.0.0.1. On any other address it starts only with \`tls_cert\` and \`tls_key\`,
or with \`allow_public\`, which is for a proxy in front that adds TLS.

Commands find the running server through the data directory and act as its operator. These variables
are for commands, not for servers: \`STOA_URL\` and \`STOA_TOKEN\` select another server, \`STOA_USER\` and
\`STOA_AGENT\` set the user and agent that a command acts for, and \`STOA_CONFIG\` is the path of the file.

A setting whose name starts with \`limits.\` is a limit. It has a variable and a place under \`limits\` in
the file, but no flag.
`;

const fixedIntroduction = `## Fixed limits

These limits are the same on every server and cannot be set. Errors name the limit that a request
exceeds.
`;

/** Empty if an operator cannot change any limit or setting of the group. */
function settingTable(group: GroupName): string[] {
  const rows = [...settingRows(group), ...limitRows(group)];
  if (rows.length === 0) return [];
  return [
    `## ${titles[group]}

| key in the file | flag of \`stoa up\` | variable | default | meaning |
|---|---|---|---|---|
${rows.join('\n')}
`,
  ];
}

function settingRows(group: GroupName): string[] {
  const groups: Readonly<Partial<Record<GroupName, object>>> = settingGroups;
  // Object.keys forgets the type of the keys.
  const names = Object.keys(groups[group] ?? {}) as SettingName[];
  return names.map((name) => {
    const { about, default: fallback, type } = settings[name];
    return `| \`${keyOf(name)}\` | \`${flagOf(name)}\` | \`${variableOf(name)}\` | ${valueText(fallback)} | ${cell(about)}${type.about === 'text' ? '' : ` (${cell(type.about)})`} |`;
  });
}

function limitRows(group: GroupName): string[] {
  return limitsOf(group)
    .filter(isLimitSetting)
    .map(
      (name) =>
        `| \`limits.${name}\` | – | \`${limitVariableOf(name)}\` | ${numberText(name)} | ${cell(limitDefinitions[name].about)}${boundsText(name)} |`,
    );
}

/** Empty if every limit of the group is a setting. */
function fixedTable(group: GroupName): string[] {
  const rows = limitsOf(group)
    .filter((name) => !isLimitSetting(name))
    .map((name) => `| \`${name}\` | ${numberText(name)} | ${cell(limitDefinitions[name].about)} |`);
  if (rows.length === 0) return [];
  return [
    `### ${titles[group]} (fixed)

| limit | value | meaning |
|---|---|---|
${rows.join('\n')}
`,
  ];
}

function limitsOf(group: GroupName): readonly LimitName[] {
  return Object.keys(limitGroups[group]) as LimitName[]; // Object.keys forgets the type of the keys.
}

function numberText(name: LimitName): string {
  return groupedDigits(limitDefinitions[name].default);
}

function valueText(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return '–';
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function boundsText(name: LimitName): string {
  const { min, max } = limitBoundsOf(name);
  if (max !== Number.MAX_SAFE_INTEGER) return ` (from ${min} to ${groupedDigits(max)})`;
  return min === 0 ? '' : ` (${min} or more)`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
