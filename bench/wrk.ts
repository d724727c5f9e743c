/** Load by wrk, which costs less than any client written here. The requests are made before the clock runs. */
import { execFile } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface WrkOptions {
  /** For the files that wrk reads. */
  readonly directory: string;
  readonly seconds: number;
  /** Each request may be sent once, because a signature counts once. A run that needs more throws `TooFewRequests`. */
  readonly isOnce: boolean;
}

export interface WrkRun {
  readonly answered: number;
  /** From the first request to the last answer. */
  readonly seconds: number;
}

/** The server answered faster than expected. The caller makes more requests, and runs again. */
export class TooFewRequests extends Error {
  override readonly name = 'TooFewRequests';
}

const connections = 64;

export async function runWrk(
  url: string,
  requests: readonly Request[],
  { directory, seconds, isOnce }: WrkOptions,
): Promise<WrkRun> {
  const { host } = new URL(url);
  const bytes = requests.map((request) => bytesOf(host, request));
  const [file, script] = [join(directory, 'requests'), join(directory, 'requests.lua')];
  await writeFile(file, bytes.map((each) => `${Buffer.byteLength(each)}\n${each}\n`).join(''));
  await writeFile(script, scriptOf(file, isOnce));
  const given = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '20s', '-s', script, url];
  const { stdout } = await promisify(execFile)('wrk', given).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new Error('wrk is not installed. On Debian: apt install wrk') : error;
  });
  await Promise.all([rm(file), rm(script)]);
  const [answered, micros, failed, asked] = (/^RESULT (\d+) (\d+) (\d+) (\d+)$/m.exec(stdout) ?? [])
    .slice(1)
    .map(Number);
  if (isOnce && Number(asked) > requests.length) throw new TooFewRequests();
  if (answered === undefined || micros === undefined || failed !== 0)
    throw new Error(`wrk reports failures:\n${stdout}`);
  return { answered, seconds: micros / 1e6 };
}

function bytesOf(host: string, { method, path, headers = {}, body }: Request): string {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined)
    lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

function scriptOf(file: string, isOnce: boolean): string {
  return `
local requests, thread = {}, nil
at = 0
function setup(only)
  thread = only
end
function init()
  local file = assert(io.open(${JSON.stringify(file)}, 'rb'))
  while true do
    local size = file:read('*l')
    if not size then break end
    requests[#requests + 1] = file:read(tonumber(size))
    file:read('*l')
  end
  file:close()
end
function request()
  at = at + 1
  if at > #requests then
    ${isOnce ? 'wrk.thread:stop()\n    return requests[1]' : 'at = 1'}
  end
  return requests[at]
end
function done(summary)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  local asked = thread:get('at')
  io.write(string.format('RESULT %d %d %d %d\\n', summary.requests, summary.duration, failed, asked))
end
`;
}
