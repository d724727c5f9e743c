/** Requests and refusals that several suites share. */
import { operatorCaller } from '../../../core/caller.js';
import type { Expect } from '../../../core/test-runner.js';
import { Agent, type Answer, type MessagingServer } from './server.js';
import { writtenPort } from './written-port.js';

export const unknownId = '11111111-2222-4333-8444-555555555555';
export const secret = 'a key of sixteen or more';

export function refusal(answer: Answer): [number, unknown] {
  return [answer.status, answer.json];
}

/** The bodies of a page of messages. */
export function bodiesOf({ json }: Answer): string[] {
  return json.messages.map(({ body }) => body);
}

/** A check that an answer is AICQ's refusal with this status and this sentence. */
export function refusals(expect: Expect) {
  return ({ status, json }: Answer, expected: number, error: string, about?: string): void =>
    expect([status, json], about).toEqual([expected, { error }]);
}

export function postOnce(agent: Agent): Promise<Answer> {
  return agent.send('/room/global', { body: 'x' });
}

export function send(from: Agent, to: string, body: unknown): Promise<Answer> {
  return from.send(`/dm/${to}`, body);
}

export function forwardedFrom(address: string): Record<string, string> {
  return { 'x-forwarded-for': address };
}

/** A new agent, without a request for it. */
export async function registered(server: MessagingServer): Promise<Agent> {
  const agent = new Agent(server);
  const { identity } = await writtenPort(server.stoa.messaging).register({
    publicKey: agent.publicKey,
    name: null,
    email: null,
    proven: false,
  });
  return Object.assign(agent, { id: identity.id });
}

/** The credentials of a user, and the agent that it acts as. */
export async function credentials(
  server: MessagingServer,
  user: string,
  agent?: string,
): Promise<Record<string, string>> {
  const { token } = await server.stoa.identity.createToken(operatorCaller(), user, {}, null);
  return { authorization: `Bearer ${token}`, ...(agent !== undefined && { 'stoa-agent': agent }) };
}
