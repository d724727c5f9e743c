/** Measures calls of a database. */

/** Called at the end of each call. */
export type OnCall = (verb: string, milliseconds: number, failed: boolean) => void;

/** Makes a call and reports its time, also if it fails. */
export async function timedCall<Result>(
  onCall: OnCall,
  verb: string,
  call: () => PromiseLike<Result> | Result,
): Promise<Result> {
  const startedMs = performance.now();
  let failed = true;
  try {
    const result = await call();
    failed = false;
    return result;
  } finally {
    onCall(verb, performance.now() - startedMs, failed);
  }
}
