/** How a suite gets a server: `const { url } = await sharedServer('postgres')` in its `beforeAll`. */
import { randomBytes } from 'node:crypto';
import { relative } from 'node:path';
import { Redis } from 'ioredis';
import type { Browser } from 'playwright-core';
import { expect, inject } from 'vitest';
import type { SharedServerName } from './provider.js';
import { copyOfTables, createDatabase } from './postgres.js';

/** The server of that name, started for the first suite; it ends with the run. */
export async function sharedServer(
  name: SharedServerName | 'program',
): Promise<{ url: string; describe: string }> {
  const answer = await fetch(
    `${inject('sharedServersUrl')}/${name}?${new URLSearchParams({ suite: suite() })}`,
  );
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as { url: string; describe: string };
}

/** The path of the shipped program, compiled from the current sources. */
export async function builtProgram(): Promise<string> {
  return (await sharedServer('program')).url;
}

/** A separate empty database on the shared PostgreSQL. */
export async function emptyPostgres(): Promise<{ url: string; describe: string }> {
  const server = await sharedServer('postgres');
  return { ...server, url: await createDatabase(server.url, databaseName()) };
}

/**
 * A separate database with the tables of all domains, as after the first start. A copy of them takes half the time
 * of making them.
 */
export async function sharedPostgres(): Promise<{ url: string; describe: string }> {
  const server = await sharedServer('postgres');
  return { ...server, url: await copyOfTables(server.url, databaseName(), makeTables) };
}

async function makeTables(postgres: string): Promise<void> {
  const { openStoa } = await import('../../src/index.js');
  const stoa = await openStoa({ postgres, redis: (await sharedRedis()).url, secretKeys: sharedKeys });
  await stoa.close();
}

function databaseName(): string {
  databases += 1;
  return `${suite().replace(/\W+/g, '_')}_${process.pid}_${databases}`.slice(-60);
}

/** A separate database on the shared Redis. One Redis database belongs to one Stoa. */
export async function sharedRedis(): Promise<{ url: string; describe: string }> {
  const server = await sharedServer('redis');
  const client = new Redis(server.url);
  try {
    return { ...server, url: `${server.url}/${await client.incr('databases given out')}` };
  } finally {
    client.disconnect();
  }
}

/** The browser of all suites. Each suite has its own pages and profiles, and closes only those. */
export async function sharedBrowser(): Promise<Browser> {
  const { chromium } = await import('playwright-core');
  return chromium.connect((await sharedServer('browser')).url);
}

/** Keys for secrets that all servers of a test share. */
export const sharedKeys = '0a'.repeat(32);

/** An empty home on the shared PostgreSQL and Redis: for `openStoa`, and for the program. */
export async function sharedHome() {
  const [{ url: postgres }, { url: redis }] = [await sharedPostgres(), await sharedRedis()];
  const operatorToken = randomBytes(24).toString('hex');
  return {
    options: { postgres, redis, secretKeys: sharedKeys, operatorToken },
    args: ['--postgres', postgres, '--redis', redis],
    environment: { STOA_SECRET_KEYS: sharedKeys, STOA_OPERATOR_TOKEN: operatorToken },
  };
}

let databases = 0;

/** A name that no other run has, so that a second run on the same server starts with nothing. */
export function uniqueName(prefix: string): string {
  return `${prefix}_${randomBytes(5).toString('hex')}`;
}

/** Reports at the end of the run that this suite started its own server. */
export async function noteServer(describe: string): Promise<void> {
  await fetch(`${inject('sharedServersUrl')}/?${new URLSearchParams({ suite: suite(), describe })}`);
}

function suite(): string {
  const path = expect.getState().testPath;
  return path === undefined ? 'unknown' : relative(process.cwd(), path);
}
