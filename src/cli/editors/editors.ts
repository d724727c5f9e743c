/** The configuration file of each program for MCP servers, and its format. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** How a program connects to Stoa: with a command, or with a URL. */
export type McpServerEntry = { command: string; args: readonly string[] } | { url: string };

export interface Editor {
  /** The name for people. */
  title: string;
  /** The file. A relative path is inside the project. */
  path(place: Place): string;
  format: 'json' | 'toml';
  /** The object that contains the servers. */
  section: string;
  entry(server: McpServerEntry): Record<string, unknown>;
}

export interface Place {
  /** Use the user's file instead of the project's, if the program has both. */
  global: boolean;
  platform: NodeJS.Platform;
  home: string;
}

/** The token stays in the environment, because configuration files are often committed. */
const tokenVariable = 'STOA_TOKEN';

const own = ({ global, home }: Place, project: string, person: string): string =>
  global ? join(home, person) : project;
const isCommand = (server: McpServerEntry): server is { command: string; args: readonly string[] } =>
  'command' in server;
const withHeader = (url: string, token: string) => ({ url, headers: { Authorization: `Bearer ${token}` } });

export const editors: Readonly<Record<string, Editor>> = {
  'claude-code': {
    title: 'Claude Code',
    path: (place) => own(place, '.mcp.json', '.claude.json'),
    format: 'json',
    section: 'mcpServers',
    entry: (server) =>
      isCommand(server)
        ? { type: 'stdio', ...server }
        : { type: 'http', ...withHeader(server.url, `\${${tokenVariable}}`) },
  },
  'claude-desktop': {
    title: 'Claude Desktop',
    path: ({ platform, home }) =>
      join(
        home,
        { darwin: 'Library/Application Support/Claude', win32: 'AppData/Roaming/Claude' }[
          platform as 'darwin' | 'win32'
        ] ?? '.config/Claude',
        'claude_desktop_config.json',
      ),
    format: 'json',
    section: 'mcpServers',
    entry: (server) => (isCommand(server) ? { ...server } : withHeader(server.url, `\${${tokenVariable}}`)),
  },
  cursor: {
    title: 'Cursor',
    path: (place) => own(place, '.cursor/mcp.json', '.cursor/mcp.json'),
    format: 'json',
    section: 'mcpServers',
    entry: (server) =>
      isCommand(server) ? { ...server } : withHeader(server.url, `\${env:${tokenVariable}}`),
  },
  vscode: {
    title: 'Visual Studio Code',
    path: () => '.vscode/mcp.json',
    format: 'json',
    section: 'servers',
    entry: (server) =>
      isCommand(server)
        ? { type: 'stdio', ...server }
        : { type: 'http', ...withHeader(server.url, `\${env:${tokenVariable}}`) },
  },
  windsurf: {
    title: 'Windsurf',
    path: ({ home }) => join(home, '.codeium/windsurf/mcp_config.json'),
    format: 'json',
    section: 'mcpServers',
    entry: (server) => {
      if (isCommand(server)) return { ...server };
      const { url, headers } = withHeader(server.url, `\${env:${tokenVariable}}`);
      return { serverUrl: url, headers };
    },
  },
  gemini: {
    title: 'Gemini CLI',
    path: (place) => own(place, '.gemini/settings.json', '.gemini/settings.json'),
    format: 'json',
    section: 'mcpServers',
    entry: (server) => {
      if (isCommand(server)) return { ...server };
      const { url, headers } = withHeader(server.url, `$${tokenVariable}`);
      return { httpUrl: url, headers };
    },
  },
  codex: {
    title: 'Codex',
    path: ({ home }) => join(home, '.codex/config.toml'),
    format: 'toml',
    section: 'mcp_servers',
    entry: (server) =>
      isCommand(server) ? { ...server } : { url: server.url, bearer_token_env_var: tokenVariable },
  },
};

export function thisPlace(global: boolean): Place {
  return { global, platform: process.platform, home: homedir() };
}
