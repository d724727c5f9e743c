/** Files of web pages: each is a hidden route. */
import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { type Operation, anyone } from '../../api/operation.js';
import { type Route, answer, routesOf } from '../route.js';

/** By name: the path, the file in the folder, and its content type. */
type Files = Readonly<Record<string, readonly [path: `/${string}`, file: string, contentType: string]>>;

export function fileRoutes(
  group: string,
  folder: URL,
  files: Files,
  { query, policy }: { query?: z.ZodType; policy: string },
): Route[] {
  return Object.entries(files).flatMap(([name, [path, file, contentType]]) => {
    const row: Operation = {
      method: 'GET',
      path,
      summary: `The file ${file}`,
      principals: anyone,
      consumes: 'raw',
      hidden: true,
    };
    const schemas = {
      ...(query !== undefined && { query }),
      answers: { 200: { contentType, about: 'A file.' } },
    };
    return routesOf(
      group,
      { [name]: row },
      { [name]: schemas },
      {
        [name]: async () =>
          answer(200, await readFile(new URL(file, folder)), {
            'content-security-policy': policy,
            'cache-control': 'no-cache',
          }),
      },
    );
  });
}
