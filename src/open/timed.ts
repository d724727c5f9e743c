/** Measures the calls of a database outside this process. */
import type { BackendCall } from '../homes/home.js';

/** The same port; each of its asynchronous verbs reports how long it took, also when it failed. */
export function timedPort<Port extends object>(
  port: Port,
  domain: string,
  backend: string,
  report: (call: BackendCall) => void,
): Port {
  return new Proxy(port, {
    get: (object, name) => {
      const member: unknown = Reflect.get(object, name, object);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]): unknown => {
        const startedMs = performance.now();
        const result: unknown = Reflect.apply(member, object, given);
        if (!(result instanceof Promise)) return result;
        const tell = (failed: boolean): void =>
          report({
            domain,
            backend,
            verb: String(name),
            milliseconds: performance.now() - startedMs,
            failed,
          });
        return result.then(
          (value: unknown) => {
            tell(false);
            return value;
          },
          (error: unknown) => {
            tell(true);
            throw error;
          },
        );
      };
    },
  });
}

/** `postgres` of `postgres://host/database`: never the rest, which may hold a password. */
export function backendName(url: string): string {
  return url.split(':')[0] ?? url;
}
