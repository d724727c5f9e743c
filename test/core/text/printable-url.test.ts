/** URLs as they may be shown. */
import { expect, test } from 'vitest';
import { hasStrayAt, withoutPassword } from '../../../src/core/text/printable-url.js';

test.each([
  ['postgres://me:hush@db/x', 'postgres://…@db/x'],
  ['postgres://me:hu/sh@db/x', 'postgres://…@db/x'],
  ['postgres://me:hu?s#h@db/x', 'postgres://…@db/x'],
  ['postgres://me:hu@sh@db/x', 'postgres://…@db/x'],
  ['couchdb://me:12/hush@db:5984', 'couchdb://…@db:5984'],
  ['postgres:me:hush@db', 'postgres:…@db'],
  ['postgres://me:hu\nsh@db/x', 'postgres://…@db/x'],
  [
    'postgres://db/x?user=me&password=hush&sslmode=require',
    'postgres://db/x?user=me&password=…&sslmode=require',
  ],
  ['redis://db?PassWord=hush', 'redis://db?PassWord=…'],
  [
    'dynamodb://AKIA:hu/sh+=@eu-central-1/table?endpoint=http://localhost:8000',
    'dynamodb://…@eu-central-1/table?endpoint=http://localhost:8000',
  ],
  ['postgres://localhost/stoa', 'postgres://localhost/stoa'],
  ['./data@home', './data@home'],
])('%j is shown as %j', (url, shown) => {
  expect(withoutPassword(url)).toBe(shown);
});

test.each([
  ['postgres://me:12/hush@db/x', true],
  ['postgres://me:12?hush@db/x', true],
  ['postgres://me:12#hush@db/x', true],
  ['postgres://me:hu%2Fsh@db/x', false],
  ['dynamodb://eu-central-1/table?endpoint=http://localhost:8000', false],
])('a password that begins to be something else is noticed: %s', (url, is) => {
  expect(hasStrayAt(url)).toBe(is);
});
