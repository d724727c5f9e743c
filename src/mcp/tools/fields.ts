/** Fields that several tools share, with short descriptions. */
import { z } from 'zod';
import { defaultNamespace } from '../../datastore/model.js';

export const namespace = z.string().default(defaultNamespace).describe('Group of keys');
export const ifVersion = z.int().min(0).optional().describe('Expected current version; 0: must not exist');
export const limit = z.int().min(1).optional();
export const cursor = z.string().optional().describe('next_cursor of the previous page');
export const nextCursor = z.string().nullable();
/** Any JSON. */
export const json = z.unknown();
/** A record of another domain, which has its own schema. */
export const record = z.looseObject({});
