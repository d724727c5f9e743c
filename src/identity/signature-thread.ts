/**
 * Verifies signatures on a thread of its own, those of one turn of the event loop together. The main thread spends 3 to 6
 * µs on such a signature instead of 56, and all threads together use 1 to 7 % more.
 */
import { Worker } from 'node:worker_threads';
import { sodiumPath } from './ed25519.js';
import { signatureBytes, verifySignature } from './signatures.js';

/** Fewer are verified at once: the caller would only wait longer. */
const batchMin = 4;
const keyBytes = 32;
/** Before each signed text: its length, the signature and the key. */
const headBytes = 4 + signatureBytes + keyBytes;

interface Waiting {
  readonly publicKey: Buffer;
  readonly text: string;
  readonly signature: Buffer;
  readonly settle: (isValid: boolean) => void;
}

export class SignatureThread {
  #batch: Waiting[] = [];
  /** Batches in the thread, in the order of their answers. */
  readonly #sent: Waiting[][] = [];
  #worker: Worker | undefined;
  #isOnline = false;
  #mayStart = true;

  /** Whether the thread verifies what comes next, if enough comes in one turn. */
  get isOnline(): boolean {
    return this.#isOnline;
  }

  /** The key must be a valid one. */
  verify(publicKey: Buffer, text: string, signature: Buffer): Promise<boolean> {
    // A longer one would reach into the place of the next part.
    if (signature.length !== signatureBytes) return Promise.resolve(false);
    return new Promise((settle) => {
      const count = this.#batch.push({ publicKey, text, signature, settle });
      if (count === 1) setImmediate(this.#endTurn);
    });
  }

  /** What the thread has not answered is verified here. */
  close(): void {
    this.#stop();
  }

  readonly #endTurn = (): void => {
    const batch = this.#batch;
    this.#batch = [];
    const isEnough = batch.length >= batchMin;
    if (isEnough && this.#isOnline) this.#send(batch);
    else verifyHere(batch);
    // The thread takes some time to start. Nobody waits for that.
    if (isEnough && this.#mayStart) this.#start();
  };

  #send(batch: Waiting[]): void {
    const packed = packBatch(batch);
    // With an answer to wait for, the process must not end.
    this.#worker?.ref();
    this.#sent.push(batch);
    this.#worker?.postMessage(packed, [packed.buffer]);
  }

  #start(): void {
    this.#mayStart = false;
    const sodium = sodiumPath();
    if (sodium === undefined) return;
    // From its text, because the program is bundled into other files than the library.
    this.#worker = new Worker(`(${verifyBatches.toString()})(require)`, {
      eval: true,
      workerData: sodium,
      execArgv: [],
      // The thread keeps nothing, and V8 would give it a young space of 16 MiB.
      resourceLimits: { maxYoungGenerationSizeMb: 4 },
    });
    this.#worker.unref();
    this.#worker.on('online', () => (this.#isOnline = true));
    this.#worker.on('message', (answers: Uint8Array) => this.#settle(answers));
    this.#worker.on('error', (error) => {
      process.emitWarning(
        `The thread that verifies signatures ended; they are verified without it: ${error}`,
      );
      this.#stop();
    });
    this.#worker.on('exit', () => this.#stop());
  }

  #settle(answers: Uint8Array): void {
    const batch = this.#sent.shift() ?? [];
    for (const [index, { settle }] of batch.entries()) settle(answers[index] === 1);
    if (this.#sent.length === 0) this.#worker?.unref();
  }

  #stop(): void {
    const worker = this.#worker;
    this.#worker = undefined;
    this.#isOnline = this.#mayStart = false;
    for (const batch of this.#sent.splice(0)) verifyHere(batch);
    void worker?.removeAllListeners('message').terminate();
  }
}

function verifyHere(batch: readonly Waiting[]): void {
  for (const { publicKey, text, signature, settle } of batch)
    settle(verifySignature(publicKey, text, signature));
}

/** The count, then each text behind its length, signature and key. */
function packBatch(batch: readonly Waiting[]): Uint8Array<ArrayBuffer> {
  const texts = batch.map(({ text }) => Buffer.from(text));
  const sizeBytes = texts.reduce((sum, { length }) => sum + headBytes + length, 4);
  const bytes = new Uint8Array(new ArrayBuffer(sizeBytes));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, batch.length);
  let at = 4;
  for (const [index, { publicKey, signature }] of batch.entries()) {
    const text = texts[index] as Buffer;
    view.setUint32(at, text.length);
    bytes.set(signature, at + 4);
    bytes.set(publicKey, at + 4 + signatureBytes);
    bytes.set(text, at + headBytes);
    at += headBytes + text.length;
  }
  return bytes;
}

/**
 * The whole program of the thread. It names nothing of this module, not even the sizes, because only its text gets there.
 */
function verifyBatches(load: (name: string) => unknown): void {
  const { parentPort, workerData } = load('node:worker_threads') as typeof import('node:worker_threads');
  const { crypto_sign_verify_detached: isValid } = load(workerData as string) as {
    crypto_sign_verify_detached(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean;
  };
  parentPort?.on('message', (bytes: Uint8Array) => {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const answers = new Uint8Array(view.getUint32(0));
    let at = 4;
    for (let index = 0; index < answers.length; index += 1) {
      const end = at + 100 + view.getUint32(at);
      const [signature, publicKey] = [bytes.subarray(at + 4, at + 68), bytes.subarray(at + 68, at + 100)];
      answers[index] = isValid(signature, bytes.subarray(at + 100, end), publicKey) ? 1 : 0;
      at = end;
    }
    parentPort.postMessage(answers, [answers.buffer]);
  });
}
