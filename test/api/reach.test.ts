import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { takesQuery } from '../../src/api/call.js';
import { operations } from '../../src/api/index.js';
import { type Operation, parameterNames } from '../../src/api/operation.js';
import type { CommandDefinition } from '../../src/cli/definitions/definition.js';
import { commandTree } from '../../src/cli/tree/index.js';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { routeGroups } from '../../src/server/routes/index.js';

const all = Object.entries(operations).flatMap(([group, table]) =>
  Object.entries(table).map(([verb, row]: [string, Operation]) => ({
    name: `${group}.${verb}`,
    group,
    verb,
    row,
  })),
);
const routes = new Map(routeGroups.flatMap((group) => group.routes.map((route) => [route.name, route])));

/** AICQ's own clients call them; this client and the commands use /v1. */
const isAicq = (name: string): boolean => name.startsWith('aicq');

/** Operations that the client reaches by a method with another name. */
const clientMethods: Readonly<Record<string, string>> = {
  'changes.read': 'changes.read',
  'commits.create': 'commit',
  'find.search': 'find',
  'find.query': 'find',
  'find.reindex': 'reindex',
  'links.set': 'agents.link',
  'links.delete': 'agents.unlink',
  'messages.list': 'room.read',
  'messages.post': 'room.post',
  'messages.get': 'room.message',
  'messages.delete': 'room.delete',
  'server.export': 'admin.export',
  'server.import': 'admin.import',
  'documents.importLines': 'admin.documents.importLines',
};

/** Operations without a command, each with the reason. */
const withoutCommand: Readonly<Record<string, string>> = {
  'commits.create': 'A commit is made by a program; a shell has single operations.',
  'documents.import': 'The command imports a whole file with documents.importLines.',
  'find.search': 'stoa find sends find.query, which can do more.',
  'links.set': 'The identity has to sign its consent, and the shell has no key.',
  'links.delete': 'As links.set: the program that made the link takes it away.',
  'messages.get': 'stoa read shows messages and threads.',
  'console.signIn': 'The page exchanges the code of its link.',
  'console.session': 'The page asks who is signed in.',
  'console.signOut': 'A person signs out on the page; stoa token revoke ends any session.',
  'server.config': 'stoa config reads the settings of this shell without a server.',
  'backups.verify': 'stoa backup verify reads the directory without a server.',
  'identities.get': 'stoa who reads profiles.get, which takes names.',
  'identities.listKeys': 'As identities.get.',
  'identities.register': 'Needs the key of an agent, which a shell does not have.',
  'identities.update': 'As identities.register.',
  'identities.rotate': 'As identities.register.',
};

/** What is at a path of members. */
function find(path: readonly string[], from: object): unknown {
  return path.reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part], from);
}

test('every operation has a route', () => {
  expect(all.filter(({ name }) => !routes.has(name)).map(({ name }) => name)).toEqual([]);
});

test('every operation is a method of the client', async () => {
  const stoa = new Stoa({ url: 'http://127.0.0.1:1' });
  const clients: object[] = [stoa, stoa.admin];
  const room = stoa.room('global');
  const isReachable = ({ name, group, verb }: (typeof all)[number]): boolean => {
    if (group === 'data') return typeof stoa.data === 'function';
    const path = (clientMethods[name] ?? (group === 'server' ? verb : `${group}.${verb}`)).split('.');
    return (path[0] === 'room' ? [{ room }] : clients).some(
      (client) => typeof find(path, client) === 'function',
    );
  };
  expect(
    all.filter((operation) => !isAicq(operation.name) && !isReachable(operation)).map(({ name }) => name),
  ).toEqual([]);
  const agent = stoa.agent(await AgentKeys.generate());
  for (const member of [
    'agents',
    'tasks',
    'projects',
    'sessions',
    'workspaces',
    'changes',
    'rooms',
    'inbox',
  ] as const)
    expect(Object.keys(agent[member]).toSorted()).toEqual(Object.keys(stoa[member]).toSorted());
});

test('every operation has a command, or is listed with the reason why not', () => {
  const derived = new Set<string>();
  const visit = (commands: readonly CommandDefinition[]): void => {
    for (const { operation, commands: inner = [] } of commands) {
      if (operation !== undefined) derived.add(operation);
      visit(inner);
    }
  };
  visit(commandTree);
  // Plain calls come from the table.
  expect(derived.size).toBeGreaterThanOrEqual(60);
  const folder = fileURLToPath(new URL('../../src/cli/commands', import.meta.url));
  const written = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('\n');
  const hasCommand = (name: string): boolean => derived.has(name) || written.includes(`'${name}'`);
  const missing = all.map(({ name }) => name).filter((name) => !isAicq(name) && !hasCommand(name));
  expect(missing.toSorted()).toEqual(Object.keys(withoutCommand).toSorted());
});

/** The fields of a schema, through defaults. */
function namesIn(schema: z.ZodType | undefined): string[] {
  if (schema instanceof z.ZodDefault) return namesIn(schema.unwrap() as z.ZodType);
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

test.each(all)('the row of $name fits its schemas', ({ name, row }) => {
  const { params, query, body } = routes.get(name) ?? {};
  expect(namesIn(params).toSorted()).toEqual(parameterNames(row.path).toSorted());
  // A field has one place.
  const fields = [...parameterNames(row.path), ...Object.keys(row.headers ?? {})];
  const rest = takesQuery(row) ? namesIn(query) : namesIn(body);
  expect(rest.filter((field) => fields.includes(field))).toEqual([]);
  if (takesQuery(row)) expect(body).toBeUndefined();
  else expect([row.bodiless === true, namesIn(query)]).toEqual([body === undefined, []]);
});
