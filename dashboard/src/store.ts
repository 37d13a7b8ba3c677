/**
 * What the page knows: every pool as a signal of its own, sums, rates. Fed by one stream of summaries; changes are gathered
 * and put in once per animation frame, so that a thousand events a second redraw what is visible, once.
 */
import { batch, computed, signal, type Signal } from "@preact/signals";
import { ask } from "./api";
import { seeServerTime, serverNow } from "./clock";
import { Stream, type Frame } from "./live";
import { Ring, Samples } from "./ring";
import type { Page, Pool, Summary, Sums, WhoAmI } from "./types";

const MOST_POOLS = 50_000;
const PAGE = 1_000;

export const me = signal<WhoAmI | null>(null);
export const may = (scope: "hold" | "admin"): boolean =>
  me.value?.scope === "admin" || (scope === "hold" && me.value?.scope === "hold");

export const pools = new Map<string, Signal<Pool>>();
/** Grows when pools come or go. */
export const membership = signal(0);
/** Grows with every change that was put in. */
export const revision = signal(0);
/** Whether all pools are here; false while they are being read, or if there are too many. */
export const loading = signal(true);
export const complete = signal(true);
export const sums = signal<Sums | null>(null);

export const samples = new Samples(150_000);
export interface Beat {
  at: number;
  actions: Record<string, number>;
  sums: Sums;
}
/** One per summary: the last few minutes of all pools together. */
export const beats = new Ring<Beat>(1_600);
export const perSecond = computed(() => {
  void revision.value;
  const since = serverNow() - 5_000;
  let count = 0;
  for (let place = beats.items.length - 1; place >= 0; place -= 1) {
    const beat = beats.items[place];
    if (!beat || beat.at < since) break;
    for (const n of Object.values(beat.actions)) count += n;
  }
  return count / 5;
});

const arrived = new Map<string, Pool | null>();
let latest: Summary | null = null;
let due = false;
let reading: AbortController | null = null;

export const stream = new Stream(() => "v1/events?kind=summary", take);

function take(frame: Frame): void {
  if (frame.event !== "summary") return;
  const summary = JSON.parse(frame.data) as Summary;
  seeServerTime(summary.server_time);
  const at = Date.parse(summary.server_time);
  for (const pool of summary.pools) {
    arrived.set(pool.id, pool);
    samples.add(at, pool.id, pool.total, pool.held, pool.consumed);
  }
  for (const id of summary.removed) arrived.set(id, null);
  beats.push({ at, actions: summary.actions, sums: summary.sums });
  latest = summary;
  if (summary.reset) void readAll();
  request();
}

function request(): void {
  if (due) return;
  due = true;
  requestAnimationFrame(putIn);
}

function putIn(): void {
  due = false;
  batch(() => {
    let moved = false;
    for (const [id, pool] of arrived) moved = put(id, pool) || moved;
    arrived.clear();
    if (latest) {
      sums.value = latest.sums;
      complete.value = latest.complete && pools.size < MOST_POOLS;
    }
    if (moved) membership.value += 1;
    revision.value += 1;
  });
}

/** Whether a pool came or went. */
function put(id: string, pool: Pool | null): boolean {
  const known = pools.get(id);
  if (pool === null) return pools.delete(id);
  if (known) known.value = pool;
  else if (pools.size < MOST_POOLS) pools.set(id, signal(pool));
  return known === undefined;
}

/** Read all pools; what the stream tells meanwhile is newer, and wins. */
async function readAll(): Promise<void> {
  reading?.abort();
  const mine = (reading = new AbortController());
  loading.value = true;
  const seen = new Set<string>();
  try {
    let after = "";
    do {
      const page: Page<Pool> = await ask("v1/pools", { query: { after, limit: PAGE }, signal: mine.signal });
      for (const pool of page.items) {
        seen.add(pool.id);
        const told = arrived.get(pool.id) ?? pools.get(pool.id)?.peek();
        if (!told || told.version <= pool.version) arrived.set(pool.id, pool);
      }
      request();
      after = page.next ?? "";
    } while (after && seen.size < MOST_POOLS);
    if (!after) for (const id of pools.keys()) if (!seen.has(id) && !arrived.has(id)) arrived.set(id, null);
    request();
    loading.value = false;
  } catch {
    // aborted by a newer reading, or the line broke: the stream comes back with another reset
  }
}
