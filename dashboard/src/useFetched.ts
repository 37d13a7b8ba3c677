/**
 * One answer of the server, read again when it may have changed: at most once a second, and one request at a time. A read
 * that fails because the server is away or busy is repeated with growing pauses; meanwhile the last answer is kept, with the
 * time at which it was true. `ReadState` draws it.
 */
import { signal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Problem } from "./api";
import { serverNow } from "./clock";

export interface Fetched<T> {
  /** The last answer; null until there is one. */
  value: T | null;
  /** Why the last read failed; null if it did not. */
  error: unknown;
  /** When the last answer was read, in milliseconds on the engine's clock. */
  at: number;
}

/** What a view reads, and a way to read it at once. */
export interface Reading<T> extends Fetched<T> {
  refresh: () => Promise<void>;
}

const PAUSE = 1_000;
const LONGEST = 10_000;

class Reader<T> {
  readonly state = signal<Fetched<T>>({ value: null, error: null, at: 0 });
  private busy = false;
  private stale = false;
  private round = 0;
  private last = 0;
  private failures = 0;
  private timer = 0;
  private readonly aborter = new AbortController();

  constructor(private readonly read: (signal: AbortSignal) => Promise<T>) {}

  readonly refresh = (): void => {
    if (this.aborter.signal.aborted) return;
    if (this.busy) {
      this.stale = true;
      return;
    }
    const wait = this.last + PAUSE - Date.now();
    clearTimeout(this.timer);
    if (wait > 0) this.timer = setTimeout(this.refresh, wait);
    else void this.now();
  };

  /** Read without waiting, after a change made from this page. A read that began before is outdated: its answer is dropped. */
  readonly now = async (): Promise<void> => {
    clearTimeout(this.timer);
    const mine = (this.round += 1);
    this.busy = true;
    this.last = Date.now();
    try {
      const value = await this.read(this.aborter.signal);
      if (mine !== this.round) return;
      this.failures = 0;
      this.state.value = { value, error: null, at: serverNow() };
    } catch (error) {
      if (this.aborter.signal.aborted || mine !== this.round) return;
      this.state.value = { ...(gone(error) ? { value: null, at: 0 } : this.state.peek()), error };
      if (passing(error)) this.later();
    } finally {
      if (mine === this.round) this.settle();
    }
  };

  private settle(): void {
    this.busy = false;
    if (!this.stale) return;
    this.stale = false;
    this.refresh();
  }

  private later(): void {
    this.failures += 1;
    this.timer = setTimeout(this.refresh, Math.min(LONGEST, PAUSE * 2 ** this.failures));
  }

  stop(): void {
    clearTimeout(this.timer);
    this.aborter.abort();
  }
}

/** Whether the server says that there is nothing any more, or nothing for this key: then the last answer is no longer true. */
const gone = (error: unknown): boolean => error instanceof Problem && [403, 404, 410].includes(error.status);

/** Whether the same request may succeed later. */
export const passing = (error: unknown): boolean =>
  error instanceof Problem && (error.status === 0 || error.status === 429 || error.status >= 500);

/** Reads when `of` changes, and whenever a signal that `when` uses changes. */
export function useFetched<T>(of: string, read: (signal: AbortSignal) => Promise<T>, when: () => void): Reading<T> {
  const reader = useMemo(() => new Reader(read), [of]);
  useEffect(() => () => reader.stop(), [reader]);
  useSignalEffect(() => {
    when();
    reader.refresh();
  });
  useEffect(() => reader.refresh(), [reader]);
  return { ...reader.state.value, refresh: reader.now };
}
