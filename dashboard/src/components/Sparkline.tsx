/**
 * The use of a pool in the last 6 hours, as a small line. All rows that are visible are read together, in one request, shortly
 * after the last of them appeared, and again every half minute. Nothing is drawn for a time without data.
 */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "../api";
import type { PoolHistories, PoolHistory } from "../types";

const WINDOW = "6h";
/** The most pools of one request. */
const MOST = 100;
const GATHER = 200;
const EVERY = 30_000;
const [WIDTH, HEIGHT] = [72, 18];

const visible = new Map<string, number>();
const known = signal<Map<string, PoolHistory>>(new Map());
let timer = 0;
let busy = false;

function show(id: string): () => void {
  visible.set(id, (visible.get(id) ?? 0) + 1);
  if (!known.peek().has(id)) soon(GATHER);
  return () => {
    const left = (visible.get(id) ?? 1) - 1;
    if (left > 0) visible.set(id, left);
    else visible.delete(id);
  };
}

function soon(pause: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void read(), pause);
}

async function read(): Promise<void> {
  const pools = [...visible.keys()].slice(0, MOST);
  if (pools.length === 0 || busy) return;
  busy = true;
  try {
    const body = { pools, window: WINDOW };
    const found: PoolHistories = await ask("v1/stats/pools", { method: "POST", body });
    known.value = new Map(found.pools.map((pool) => [pool.pool, pool]));
  } catch {
    known.value = new Map(); // no line rather than an old one; the page says what is wrong
  } finally {
    busy = false;
    soon(EVERY);
  }
}

export function Sparkline({ id }: { id: string }) {
  useEffect(() => show(id), [id]);
  const path = pathOf(known.value.get(id));
  return (
    <svg class="sparkline" width={WIDTH} height={HEIGHT} aria-hidden="true" data-points={path === "" ? 0 : 1}>
      {path !== "" && <path d={path} />}
    </svg>
  );
}

/** Used units as a share of the total; a new line begins after each gap. */
function pathOf(history: PoolHistory | undefined): string {
  if (!history) return "";
  const last = history.peak.length - 1;
  let path = "";
  let drawing = false;
  history.peak.forEach((peak, index) => {
    const total = history.total[index];
    if (peak === null || total === null || total === undefined) {
      drawing = false;
      return;
    }
    const x = last > 0 ? (WIDTH * index) / last : 0;
    const y = HEIGHT - 1 - (HEIGHT - 2) * Math.min(1, peak / Math.max(1, total));
    path += `${drawing ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}${drawing ? "" : "h0.5"}`;
    drawing = true;
  });
  return path;
}
