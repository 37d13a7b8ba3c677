/** A ring buffer: once full, each new element replaces the oldest. */

/** The last `size` elements of anything. */
export class RingBuffer<T> {
  readonly items: T[] = [];

  constructor(private readonly size: number) {}

  push(...more: T[]): void {
    this.items.push(...more);
    if (this.items.length > this.size) this.items.splice(0, this.items.length - this.size);
  }
}
