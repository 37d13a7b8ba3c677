/** One answer of the server, read again when it may have changed: at most once a second, and one request at a time. */
import { signal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

export interface Fetched<T> {
  value: T | null;
  error: unknown;
}

const PAUSE = 1_000;

class Reader<T> {
  readonly state = signal<Fetched<T>>({ value: null, error: null });
  private busy = false;
  private stale = false;
  private last = 0;
  private timer = 0;
  readonly aborter = new AbortController();

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

  /** Read without waiting, after a change made from this page. */
  readonly now = async (): Promise<void> => {
    this.busy = true;
    this.last = Date.now();
    try {
      this.state.value = { value: await this.read(this.aborter.signal), error: null };
    } catch (error) {
      if (!this.aborter.signal.aborted) this.state.value = { value: this.state.peek().value, error };
    } finally {
      this.busy = false;
      if (this.stale) {
        this.stale = false;
        this.refresh();
      }
    }
  };

  stop(): void {
    clearTimeout(this.timer);
    this.aborter.abort();
  }
}

/** Reads when `of` changes, and whenever a signal that `when` uses changes. */
export function useFetched<T>(of: string, read: (signal: AbortSignal) => Promise<T>, when: () => void) {
  const reader = useMemo(() => new Reader(read), [of]);
  useEffect(() => () => reader.stop(), [reader]);
  useSignalEffect(() => {
    when();
    reader.refresh();
  });
  useEffect(() => reader.refresh(), [reader]);
  return { ...reader.state.value, refresh: reader.now };
}
