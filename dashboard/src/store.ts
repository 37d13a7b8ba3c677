/**
 * The page's state: every pool as its own signal, sums and rates. It is fed by one stream of summaries. Changes are collected
 * and applied once per animation frame, so that a thousand events a second cause one redraw of what is visible.
 *
 * Summaries tell of all pools, so a key that is limited to some does not get them. For such a key the pools that it may see are
 * read every few seconds instead, and summed here.
 */
import { batch, computed, signal, type Signal } from "@preact/signals";
import { ask, Problem, READ_PATIENCE } from "./api";
import { syncClock, serverNow } from "./clock";
import { Stream, type ServerEvent } from "./live";
import { RingBuffer } from "./buffers";
import { above } from "./trees";
import type { PoolAnswer, PoolPage, Summary, Sums, WhoAmI } from "./types";
import { passing, type Reading } from "./useFetched";

const MOST_POOLS = 50_000;
const PAGE = 1_000;
/** Milliseconds until pools that could not be read are read again. */
const RETRY = 2_000;
/** Milliseconds between two reads of all pools by a key that gets no summaries. */
export const POLL = 5_000;

export const me = signal<WhoAmI | null>(null);
export const may = (scope: "hold" | "admin"): boolean =>
  me.value?.scope === "admin" || (scope === "hold" && me.value?.scope === "hold");

export const pools = new Map<string, Signal<PoolAnswer>>();
/** Counts up when a pool appears or disappears. */
export const membership = signal(0);
/** Counts up with every update that was applied. */
export const revision = signal(0);
/** All pools are loaded; false if there are too many. */
export const complete = signal(true);
/** When all pools were read last, in milliseconds on the engine's clock, and why that failed since. */
const loaded = signal({ at: 0, error: null as unknown });
export const sums = signal<Sums | null>(null);

export interface SummarySample {
  at: number;
  actions: Record<string, number>;
  sums: Sums;
}
/** One per summary: the last few minutes, all pools together. */
export const summarySamples = new RingBuffer<SummarySample>(1_600);
export const perSecond = computed(() => {
  void revision.value;
  const since = serverNow() - 5_000;
  let count = 0;
  for (let index = summarySamples.items.length - 1; index >= 0; index -= 1) {
    const beat = summarySamples.items[index];
    if (!beat || beat.at < since) break;
    for (const n of Object.values(beat.actions)) count += n;
  }
  return count / 5;
});

/** How many pools are loaded, as something that is read: null until they are, or the first of them. */
export const poolsRead = computed<Reading<number>>(() => {
  void [membership.value, revision.value];
  const { at, error } = loaded.value;
  const none = at === 0 && pools.size === 0;
  const away = none && stream.down.value ? new Problem(0, "unreachable", stream.why.value) : null;
  return { value: none ? null : pools.size, error: error ?? away, at: at || stream.heard.value, refresh: reload };
});

const arrived = new Map<string, PoolAnswer | null>();
let latest: Summary | null = null;
let due = false;
let reading: AbortController | null = null;
let again = 0;
let polling = false;

export const stream = new Stream(
  () => "v1/events?kind=summary",
  take,
  () => void poll(),
);

function take(frame: ServerEvent): void {
  if (frame.event !== "summary") return;
  const summary = JSON.parse(frame.data) as Summary;
  syncClock(summary.server_time);
  const at = Date.parse(summary.server_time);
  for (const pool of summary.pools) arrived.set(pool.id, pool);
  for (const id of summary.removed) arrived.set(id, null);
  summarySamples.push({ at, actions: summary.actions, sums: summary.sums });
  latest = summary;
  if (summary.reset) void readAll();
  request();
}

function request(): void {
  if (due) return;
  due = true;
  requestAnimationFrame(flush);
}

function flush(): void {
  due = false;
  batch(() => {
    let moved = false;
    for (const [id, pool] of arrived) moved = put(id, pool) || moved;
    arrived.clear();
    if (latest) {
      sums.value = latest.sums;
      complete.value = latest.complete && pools.size < MOST_POOLS;
    } else if (polling) {
      sums.value = summed();
      complete.value = pools.size < MOST_POOLS;
    }
    if (moved) membership.value += 1;
    revision.value += 1;
  });
}

/** Returns whether a pool appeared or disappeared. */
function put(id: string, pool: PoolAnswer | null): boolean {
  const known = pools.get(id);
  if (pool === null) return pools.delete(id);
  if (known) known.value = pool;
  else if (pools.size < MOST_POOLS) pools.set(id, signal(pool));
  return known === undefined;
}

/** Read all pools. What the stream reports meanwhile is newer and takes precedence. */
async function readAll(): Promise<void> {
  clearTimeout(again);
  reading?.abort();
  const mine = (reading = new AbortController());
  const seen = new Set<string>();
  try {
    let after = "";
    do {
      const patience = polling ? 2 * POLL : READ_PATIENCE;
      const page: PoolPage = await ask("v1/pools", { query: { after, limit: PAGE }, signal: mine.signal, patience });
      for (const pool of page.items) {
        seen.add(pool.id);
        const known = arrived.get(pool.id) ?? pools.get(pool.id)?.peek();
        if (!known || known.version <= pool.version) arrived.set(pool.id, pool);
      }
      request();
      after = page.next ?? "";
    } while (after && seen.size < MOST_POOLS);
    if (!after) for (const id of pools.keys()) if (!seen.has(id) && !arrived.has(id)) arrived.set(id, null);
    request();
    loaded.value = { at: serverNow(), error: null };
  } catch (error) {
    if (mine.signal.aborted) return; // by a newer reading
    loaded.value = { ...loaded.peek(), error };
    if (!polling) again = setTimeout(() => void readAll(), RETRY);
  }
}

async function poll(): Promise<void> {
  polling = true;
  for (;;) {
    if (document.hidden)
      await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
    await readAll();
    const { error } = loaded.peek();
    if (error instanceof Problem && error.status === 401) {
      stream.status.value = { state: "refused", problem: error };
      return;
    }
    const away = error !== null && passing(error);
    if (away) stream.why.value = (error as Problem).message;
    else stream.heard.value = serverNow();
    stream.down.value = away;
    await new Promise((done) => setTimeout(done, POLL));
  }
}

/** A pool has the units of those below it, too: units are summed over the pools that are below no other. */
function summed(): Sums {
  const sums: Sums = { pools: 0, total: 0, held: 0, consumed: 0, available: 0, over: 0, full: 0 };
  for (const one of pools.values()) {
    const pool = one.peek();
    sums.pools += 1;
    sums.over += Number(pool.over);
    sums.full += Number(pool.available === 0);
    if (above(pool.id).some((id) => pools.has(id))) continue;
    sums.total += pool.total;
    sums.held += pool.held;
    sums.consumed += pool.consumed;
    sums.available += pool.available;
  }
  return sums;
}

/** Connect again if the connection is down, else read all pools again. */
function reload(): Promise<void> {
  if (polling || !stream.down.peek()) return readAll();
  stream.retry();
  return Promise.resolve();
}
