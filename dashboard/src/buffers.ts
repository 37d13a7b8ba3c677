/** RingBuffer buffers: once full, each new element replaces the oldest. */

/** PoolSamples of any number of pools in one ring buffer of typed arrays: memory grows neither with pools nor with time. */
export class PoolSamples {
  private readonly at: Float64Array;
  private readonly who: Int32Array;
  private readonly values: Float64Array;
  private next = 0;
  private length = 0;
  private readonly numbers = new Map<string, number>();

  constructor(private readonly size: number) {
    this.at = new Float64Array(size);
    this.who = new Int32Array(size);
    this.values = new Float64Array(size * 3);
  }

  add(at: number, id: string, total: number, held: number, consumed: number): void {
    if (this.numbers.size > this.size) this.forget();
    let number = this.numbers.get(id);
    if (number === undefined) this.numbers.set(id, (number = this.numbers.size + 1));
    this.at[this.next] = at;
    this.who[this.next] = number;
    this.values.set([total, held, consumed], this.next * 3);
    this.next = (this.next + 1) % this.size;
    this.length = Math.min(this.size, this.length + 1);
  }

  /** There have been more pools than the buffer has slots: start over. */
  private forget(): void {
    this.numbers.clear();
    this.next = this.length = 0;
  }

  /** A pool's samples, oldest first: [at, total, held, consumed]. */
  of(id: string): [number, number, number, number][] {
    const number = this.numbers.get(id);
    const found: [number, number, number, number][] = [];
    if (number === undefined) return found;
    for (let step = 0, index = (this.next - this.length + this.size) % this.size; step < this.length; step += 1) {
      if (this.who[index] === number) {
        const from = index * 3;
        const [total = 0, held = 0, consumed = 0] = this.values.subarray(from, from + 3);
        found.push([this.at[index] ?? 0, total, held, consumed]);
      }
      index = index + 1 === this.size ? 0 : index + 1;
    }
    return found;
  }
}

/** The last `size` elements of anything. */
export class RingBuffer<T> {
  readonly items: T[] = [];

  constructor(private readonly size: number) {}

  push(...more: T[]): void {
    this.items.push(...more);
    if (this.items.length > this.size) this.items.splice(0, this.items.length - this.size);
  }
}
