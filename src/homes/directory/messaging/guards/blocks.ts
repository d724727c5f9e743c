/** Blocked addresses: all of them in memory, because every request asks for one. */
import type { Block } from '../../../../messaging/model.js';
import type { BlockPage } from '../../../../messaging/port.js';
import type { Store } from '../../kernel/store.js';
import { expiryTimers } from '../retention-timers.js';
import { decodeOrUndefined, encode, families } from '../rows.js';

export class Blocks {
  readonly #store: Store;
  readonly #byAddress: Map<string, Block>;

  /** Rows that cannot be read are left out: a damaged row must not keep the server from starting. */
  constructor(store: Store) {
    this.#store = store;
    const blocks = Array.from(store.range(families.blocks, {}), ({ value }) =>
      decodeOrUndefined<Block>(value),
    );
    this.#byAddress = new Map(
      blocks.flatMap((block) => (block === undefined ? [] : [[block.address, block]])),
    );
  }

  get count(): number {
    return this.#byAddress.size;
  }

  of(address: string): Block | undefined {
    const block = this.#byAddress.get(address);
    return block !== undefined && block.expiresAtMs > this.#store.nowMs() ? block : undefined;
  }

  page(after: string | null, limit: number): BlockPage {
    const from = after === null ? {} : { gt: Buffer.from(after) };
    const rows = Array.from(this.#store.range(families.blocks, { ...from, limit }));
    const last = rows.length < limit ? undefined : rows.at(-1);
    return {
      items: rows
        .flatMap(({ value }) => decodeOrUndefined<Block>(value) ?? [])
        .filter(({ expiresAtMs }) => expiresAtMs > this.#store.nowMs()),
      next: last?.key.toString() ?? null,
    };
  }

  async put(block: Block): Promise<void> {
    const key = Buffer.from(block.address);
    this.#byAddress.set(block.address, block);
    await this.#store.transact((tx) => {
      tx.put(families.blocks, key, encode(block));
      tx.schedule({ atMs: block.expiresAtMs, kind: expiryTimers.block, reference: key });
    });
  }

  /** True if the address was blocked. `onRemoved` is called when the removal is on disk. */
  async remove(address: string, onRemoved: () => void): Promise<boolean> {
    const blocked = this.of(address) !== undefined;
    await this.#store.transact((tx) => {
      tx.delete(families.blocks, Buffer.from(address));
      tx.onDurable(() => {
        this.#byAddress.delete(address);
        onRemoved();
      });
    });
    return blocked;
  }

  /** The timer of the block has removed its row. */
  forget(address: string): void {
    this.#byAddress.delete(address);
  }
}
