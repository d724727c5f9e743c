/** The texts of the OpenAPI document: made at the first request, in slices, and kept. */
import { Slices, inSlices } from '../../core/waiting/yielding.js';
import type { RouteGroup } from '../group.js';
import { openApiOf } from './document.js';
import { yamlLines } from './yaml.js';

/** A look at the clock costs as much as a line. */
const linesPerLook = 100;

/** Anyone may ask for the texts, and making them takes hundreds of milliseconds: requests share one making. */
export class OpenApiTexts {
  readonly #groups: readonly RouteGroup[];
  #document: Promise<Record<string, unknown>> | undefined;
  #json: Promise<string> | undefined;
  #yaml: Promise<string> | undefined;

  constructor(groups: readonly RouteGroup[]) {
    this.#groups = groups;
  }

  json(): Promise<string> {
    return (this.#json ??= this.#make().then((document) => JSON.stringify(document)));
  }

  yaml(): Promise<string> {
    return (this.#yaml ??= this.#make().then(yamlOf));
  }

  #make(): Promise<Record<string, unknown>> {
    return (this.#document ??= inSlices(openApiOf(this.#groups)));
  }
}

async function yamlOf(document: Record<string, unknown>): Promise<string> {
  const slices = new Slices();
  let text = '';
  let lines = 0;
  for (const line of yamlLines(document)) {
    text += `${line}\n`;
    lines += 1;
    if (lines % linesPerLook === 0) await slices.pause();
  }
  return text;
}
