/** Waits of the tests. Their limit is for a machine with much other work: it ends only a wait that is in vain. */

/** Also the limit of `expect.poll`. */
export const waitMsMax = 40_000;

/** Waits for a condition. The timeout of the test ends a wait that is in vain. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await pause(20);
}

/** Repeats a check until it throws nothing; then answers what the check returned. */
export async function eventually<Value>(
  check: () => Value | Promise<Value>,
  intervalMs = 20,
): Promise<Value> {
  const deadlineMs = performance.now() + waitMsMax;
  for (;;) {
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
