/** Files of web pages: each is a hidden route. */
import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { type Operation, anyone } from '../../api/operation.js';
import { type Route, answer, routesOf } from '../route.js';

/** By name: the path, and the file in the folder. */
type Files = Readonly<Record<string, readonly [path: `/${string}`, file: string]>>;

const contentTypes: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
  svg: 'image/svg+xml',
};

export function contentTypeOf(file: string): string {
  return contentTypes[file.slice(file.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
}

export function fileRoutes(
  group: string,
  folder: URL,
  files: Files,
  { query, policy }: { query?: z.ZodType; policy: string },
): Route[] {
  return Object.entries(files).flatMap(([name, [path, file]]) => {
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
      answers: { 200: { contentType: contentTypeOf(file), about: 'A file.' } },
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
