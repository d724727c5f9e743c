/** The tool for several changes in one step. */
import { z } from 'zod';
import { checkSchema, operationSchema } from '../../commit/schemas.js';
import { checkOf, operationOf } from './commit-names.js';
import { record } from './fields.js';
import { defineTool } from '../tool.js';

/** The values of `op` and `check`, from the schemas that the commit uses. */
const operationNames = operationSchema.options.map((option) => option.shape.op.value);
const checkNames = checkSchema.options.map((option) => option.shape.check.value);

const commit = defineTool({
  name: 'commit',
  title: 'Commit',
  description:
    'Do several changes as one: all or none. Use it when a result and its report must not come apart. ' +
    'Each operation is {op, …} with the fields of the tool that does it alone. checks must hold at ' +
    'that moment, such as {check: "data", key, version}. ok: false names the check or operation that ' +
    'met a conflict; nothing was changed then: read again and retry.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  input: z.strictObject({
    operations: z
      .array(z.looseObject({ op: z.enum(operationNames) }))
      .min(1)
      .describe(
        'data.set {namespace, key, value, ttl?, if_version?}, data.delete, data.increment {key, by}, ' +
          'data.append {key, items}, task.complete {task, fence, output}, task.create {project, command}, ' +
          'room.post {room, text}, dm.send {to, text}, lock.acquire {name} …',
      ),
    checks: z.array(z.looseObject({ check: z.enum(checkNames) })).default([]),
  }),
  output: z.object({
    ok: z.boolean(),
    results: z.array(z.unknown()).optional(),
    position: z.string().optional(),
    failed: record.optional(),
  }),
  run: async ({ stoa, caller }, input) => {
    const operations = [];
    for (const operation of input.operations) operations.push(await operationOf(stoa, caller, operation));
    const checks = await Promise.all(input.checks.map((check) => checkOf(stoa, caller, check)));
    // The service validates every operation and check with its complete schema.
    const complete = { operations, checks } as Parameters<typeof stoa.commit.commit>[1];
    const outcome = await stoa.commit.commit(caller, complete);
    if (!outcome.ok) return { ok: false, failed: { ...outcome.failed } };
    const isLong = JSON.stringify(outcome.results).length > stoa.limits.mcpAnswerBytesMax;
    return isLong ? { ...outcome, results: outcome.results.map(withoutValue) } : outcome;
  },
});

/** The caller knows the value that it wrote, and can recall it. */
function withoutValue(result: unknown): unknown {
  if (typeof result !== 'object' || result === null || !('value' in result)) return result;
  const { value: _, ...rest } = result;
  return rest;
}

export const commitTools = [commit];
