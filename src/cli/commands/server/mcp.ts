/** `stoa mcp`: the tools of the server over stdin and stdout. It starts a server if none runs. */
import { resolve } from 'node:path';
import { bearer, identityHeaders, operatorToken } from '../../connection/connection.js';
import { type Action, textOption } from '../../definitions/definition.js';
import { ensureServer } from '../../mcp/server-starter.js';
import type { ServerAddress } from '../../mcp/server-link.js';
import { StdioBridge } from '../../mcp/stdio-bridge.js';

export const mcp: Action = async ({ output, globals, settings }, _args, options) => {
  const [url, token, configFile] = ['url', 'token', 'config'].map((name) => textOption(globals, name));
  const { config } = settings();
  const identity = identityHeaders({ user: textOption(globals, 'user') });
  const findServer = async (): Promise<ServerAddress> => {
    if (url !== undefined) return { url, headers: { ...identity, ...bearer(token) } };
    const found = await ensureServer(
      config,
      configFile === undefined ? [] : ['--config', resolve(configFile)],
    );
    return {
      url: found,
      headers: { ...identity, ...bearer(token ?? (await operatorToken(resolve(config.data)))) },
    };
  };
  const bridge = new StdioBridge({
    input: process.stdin,
    agent: textOption(globals, 'agent'),
    scope: textOption(options, 'scope'),
    write: (line) => void process.stdout.write(`${line}\n`),
    findServer,
    lineBytesMax: config.limits.bodyBytesMax,
    say: (sentence) => output.say(sentence),
  });
  await bridge.run();
};
