/** A server of this package for the agents of the messaging suites. */
import type { FastifyInstance } from 'fastify';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { Desk as AnyDesk, roomy } from '../../src/messaging/conformance/kit/desk.js';
import { type AppOptions, createApp, stopApp } from '../../src/server/app.js';

export { Agent, type Answer, roomy } from '../../src/messaging/conformance/kit/desk.js';
export { Stream } from '../../src/messaging/conformance/kit/stream.js';

export class Desk extends AnyDesk {
  readonly stoa: Stoa;
  readonly app: FastifyInstance;
  readonly url: string;

  private constructor(stoa: Stoa, app: FastifyInstance, url: string) {
    super();
    this.stoa = stoa;
    this.app = app;
    this.url = url;
  }

  static async open({
    corsOrigin = [],
    ...options
  }: Partial<StoaOptions> & Pick<AppOptions, 'corsOrigin'> = {}): Promise<Desk> {
    const stoa = await openStoa({ data: '', engine: 'memory', limits: roomy, ...options });
    const app = createApp(stoa, { corsOrigin });
    return new Desk(stoa, app, await app.listen({ port: 0, host: '127.0.0.1' }));
  }

  async stop(seconds: number): Promise<void> {
    await stopApp(this.app, seconds);
  }
}
