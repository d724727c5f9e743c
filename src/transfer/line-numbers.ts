/** A set of line numbers, with one bit for each line: every line of a file may be invalid. */
export class LineNumbers {
  #bits = new Uint8Array(1_024);

  has(number: number): boolean {
    return ((this.#bits[Math.floor(number / 8)] ?? 0) & (1 << (number % 8))) !== 0;
  }

  add(number: number): void {
    const at = Math.floor(number / 8);
    if (at >= this.#bits.length) {
      const larger = new Uint8Array(2 * at);
      larger.set(this.#bits);
      this.#bits = larger;
    }
    this.#bits[at] = (this.#bits[at] ?? 0) | (1 << (number % 8));
  }
}
