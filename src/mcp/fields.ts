/** Fields that several tools share, described once and briefly. */
import { z } from 'zod';
import { defaultNamespace } from '../datastore/model.js';

export const namespace = z.string().default(defaultNamespace).describe('Group of keys');
export const ifVersion = z.int().min(0).optional().describe('Only over this version; 0: only if new');
export const limit = z.int().min(1).optional();
export const cursor = z.string().optional().describe('next_cursor of the page before');
export const nextCursor = z.string().nullable();
/** Any JSON. */
export const json = z.unknown();
/** A record of another domain, whose own schema says what is in it. */
export const record = z.looseObject({});
