/** Waits of the tests. Their limit is for a machine with much other work: it ends only a wait that is in vain. */

/** Also the limit of `expect.poll`. */
export const waitMsMax = 40_000;

/** Waits for a condition. The timeout of the test ends a wait that is in vain. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await pause(20);
}

/** A check often asks a server: what takes long is asked for less often. */
const intervalMsMax = 200;

/** Repeats a check until it throws nothing; then answers what the check returned. */
export async function eventually<Value>(
  check: () => Value | Promise<Value>,
  firstIntervalMs = 20,
): Promise<Value> {
  const deadlineMs = performance.now() + waitMsMax;
  for (let intervalMs = firstIntervalMs; ; intervalMs = Math.min(intervalMs * 1.5, intervalMsMax)) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
    }
    await pause(intervalMs);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
