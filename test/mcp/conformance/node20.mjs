/** Lets the conformance suite load on Node 20: it imports `globSync`, which only a command that is not run here calls. */
import { register } from 'node:module';

const hook = `
export async function resolve(specifier, context, next) {
  if (specifier !== 'fs' || !context.parentURL?.includes('/@modelcontextprotocol/conformance/')) return next(specifier, context);
  const source = 'export * from "node:fs"; export const globSync = () => { throw new Error("needs Node 22"); };';
  return { url: 'data:text/javascript,' + encodeURIComponent(source), shortCircuit: true };
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
