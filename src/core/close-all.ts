/** Closes something that consists of several parts. */
export type Closing = () => Promise<void> | undefined;

/**
 * Closes one part after the other. A part that fails must not keep the others open; the first error is thrown
 * at the end.
 */
export async function closeAll(steps: readonly Closing[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
