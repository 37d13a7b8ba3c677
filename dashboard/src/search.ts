/**
 * A search through all pools of the server, for when there are more than this page loads: first the pools whose name begins
 * with the text, in one request; then those that contain it, some names at a time.
 */
import { signal, type Signal } from "@preact/signals";
import { ask } from "./api";
import { pools } from "./store";
import type { PoolAnswer, PoolPage } from "./types";

const MOST = 500;
/** Requests in a row; the server looks through about 20,000 names for each. */
const ROUND = 5;

export class Search {
  readonly found = signal<Signal<PoolAnswer>[]>([]);
  readonly state = signal<"searching" | "paused" | "done" | "failed">("searching");
  error: unknown = null;
  private readonly seen = new Set<string>();
  private readonly aborter = new AbortController();
  private begun = false;
  private after = "";

  constructor(private readonly searchText: string) {}

  /** Search on, until a round of requests is over, enough is found, or all names are searched. */
  readonly go = async (): Promise<void> => {
    this.state.value = "searching";
    try {
      if (!this.begun) await this.take({ prefix: this.searchText, limit: MOST });
      this.begun = true;
      const enough = this.found.peek().length + MOST;
      for (let asked = 0; asked < ROUND && this.found.peek().length < enough; asked += 1) {
        const next = await this.take({ contains: this.searchText, after: this.after, limit: MOST });
        if (next === null) {
          this.state.value = "done";
          return;
        }
        this.after = next;
      }
      this.state.value = "paused";
    } catch (error) {
      if (this.aborter.signal.aborted) return;
      this.error = error;
      this.state.value = "failed";
    }
  };

  stop(): void {
    this.aborter.abort();
  }

  private async take(query: Record<string, string | number>): Promise<string | null> {
    const page: PoolPage = await ask("v1/pools", { query, signal: this.aborter.signal });
    const fresh = page.items.filter((pool) => !this.seen.has(pool.id));
    for (const pool of fresh) this.seen.add(pool.id);
    if (fresh.length > 0)
      this.found.value = [...this.found.peek(), ...fresh.map((pool) => pools.get(pool.id) ?? signal(pool))];
    return page.next;
  }
}
