/** How a suite asks for a server: `const { url } = await sharedServer('postgres')` in its `beforeAll`. */
import { randomBytes } from 'node:crypto';
import { relative } from 'node:path';
import { expect, inject } from 'vitest';
import type { SharedServerName } from './desk.js';
import { createDatabase } from './postgres.js';

/** The server of that name, started when the first suite asks; it ends with the run, so nobody stops it. */
export async function sharedServer(
  name: SharedServerName | 'program',
): Promise<{ url: string; describe: string }> {
  const answer = await fetch(`${inject('serverDesk')}/${name}?${new URLSearchParams({ suite: suite() })}`);
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as { url: string; describe: string };
}

/** The path of the program as it ships, compiled from the sources as they are. */
export async function builtProgram(): Promise<string> {
  return (await sharedServer('program')).url;
}

/** A database of its own on the shared PostgreSQL. */
export async function sharedPostgres(): Promise<{ url: string; describe: string }> {
  const server = await sharedServer('postgres');
  databases += 1;
  const name = `${suite().replace(/\W+/g, '_')}_${process.pid}_${databases}`.slice(-60);
  return { ...server, url: await createDatabase(server.url, name) };
}

/** Keys for secrets that all servers of a test share. */
export const sharedKeys = '0a'.repeat(32);

let databases = 0;

/** A name that no other run has, so that a second run on the same server starts with nothing. */
export function uniqueName(prefix: string): string {
  return `${prefix}_${randomBytes(5).toString('hex')}`;
}

/** Says in the run's last lines that this suite ran on a server which it started by itself. */
export async function noteServer(describe: string): Promise<void> {
  await fetch(`${inject('serverDesk')}/?${new URLSearchParams({ suite: suite(), describe })}`);
}

function suite(): string {
  const path = expect.getState().testPath;
  return path === undefined ? 'unknown' : relative(process.cwd(), path);
}
