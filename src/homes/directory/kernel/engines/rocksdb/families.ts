/** The list of column families on disk, in a file beside the database. */
import { join } from 'node:path';
import { readIfThere, writeDurably } from '../../../../../core/files.js';
import { damagedData } from '../checked.js';

/** Which families are on disk. RocksDB refuses to open unless every one of them is named. */
const familiesFile = 'FAMILIES.json';

/** All families that are or will be on disk, noted down before RocksDB creates the new ones. */
export async function rememberFamilies(path: string, families: readonly string[]): Promise<string[]> {
  const file = join(path, familiesFile);
  const known = await knownFamilies(path, file);
  const names = [...new Set(['default', ...known, ...families])];
  if (names.length > known.length) await writeDurably(file, `${JSON.stringify(names, undefined, 2)}\n`);
  return names;
}

async function knownFamilies(path: string, file: string): Promise<string[]> {
  const content = await readIfThere(file);
  if (content === undefined) return [];
  try {
    const names: unknown = JSON.parse(content);
    if (Array.isArray(names) && names.every((name) => typeof name === 'string')) return names;
    throw new TypeError(`${familiesFile} is not a list of names`);
  } catch (thrown) {
    throw damagedData(path, thrown);
  }
}
