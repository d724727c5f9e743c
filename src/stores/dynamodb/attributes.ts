/**
 * Converts between JSON and DynamoDB's values: reads all values of other programs, writes only values that
 * come back unchanged.
 */
import type { JsonObject, JsonValue } from '../../datastore/model.js';
import type { AttributeValue, Item } from './client.js';

/** The JSON text of a native value. Numbers keep all their digits; sets are lists, binary is base64. */
export function nativeJson(value: AttributeValue): string {
  if (value.S !== undefined) return JSON.stringify(value.S);
  if (value.N !== undefined) return value.N;
  if (value.BOOL !== undefined) return String(value.BOOL);
  if (value.M !== undefined)
    return `{${Object.entries(value.M)
      .map(([name, member]) => `${JSON.stringify(name)}:${nativeJson(member)}`)
      .join(',')}}`;
  if (value.L !== undefined) return `[${value.L.map(nativeJson).join(',')}]`;
  if (value.SS !== undefined) return JSON.stringify(value.SS);
  if (value.NS !== undefined) return `[${value.NS.join(',')}]`;
  if (value.B !== undefined) return JSON.stringify(Buffer.from(value.B).toString('base64'));
  if (value.BS !== undefined)
    return JSON.stringify(value.BS.map((bytes) => Buffer.from(bytes).toString('base64')));
  return 'null';
}

export function toAttribute(value: JsonValue): AttributeValue {
  if (value === null) return { NULL: true };
  if (typeof value === 'string') return { S: value };
  if (typeof value === 'number') return { N: String(value) };
  if (typeof value === 'boolean') return { BOOL: value };
  if (Array.isArray(value)) return { L: value.map(toAttribute) };
  return {
    M: Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toAttribute(member)])),
  };
}

/** DynamoDB nests 32 levels; the item and the attribute itself are two of them, and a few stay free. */
const nativeDepthMax = 28;

/**
 * Whether a native map returns it unchanged: no number out of DynamoDB's range, no empty name, not too deep.
 */
export function isNative(object: JsonObject): boolean {
  return fits(object, nativeDepthMax);
}

function fits(value: JsonValue, depthLeft: number): boolean {
  if (typeof value === 'number') return value === 0 || (Math.abs(value) > 1e-128 && Math.abs(value) < 1e125);
  if (value === null || typeof value !== 'object') return true;
  if (depthLeft === 0) return false;
  if (Array.isArray(value)) return value.every((item) => fits(item, depthLeft - 1));
  return Object.entries(value).every(([name, member]) => name !== '' && fits(member, depthLeft - 1));
}

/** Bytes of an item by the rules of DynamoDB's limit, rounded up. */
export function itemBytes(item: Item): number {
  return Object.entries(item).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + attributeBytes(value),
    0,
  );
}

/** A number takes at most 21 bytes; a list or map three, and one more for each member. */
function attributeBytes(value: AttributeValue): number {
  if (value.S !== undefined) return Buffer.byteLength(value.S);
  if (value.N !== undefined) return Math.min(21, value.N.length + 1);
  if (value.M !== undefined) return 3 + Object.keys(value.M).length + itemBytes(value.M);
  if (value.L !== undefined) return 3 + value.L.reduce((sum, member) => sum + 1 + attributeBytes(member), 0);
  return 1;
}
