/** Who in line would be offered units, as things are now. The server offers them by the same rule when the units are free. */
import { ask, Problem, segment } from "../api";
import { serverNow } from "../clock";
import { number } from "../format";
import { rootOf } from "../trees";
import type { HoldAnswer, HoldPage, PoolAnswer } from "../types";

const MOST = 1_000;
/** How many who do not fit a line of kind `skip` passes over. */
const SKIPPED = 100;
/** Lines that are read for one hold. */
const MOST_LINES = 20;

export interface Line {
  pool: PoolAnswer;
  waiting: HoldAnswer[];
}

/** The lines that units of these pools would be offered to: only a pool that is below no other has one, and what becomes free
 * below it is free there too. A key that may not read a pool above its own gets none of it. */
export async function readLines(pools: string[], signal: AbortSignal): Promise<Line[]> {
  const roots = [...new Set(pools.filter((id) => !id.startsWith("~")).map(rootOf))].slice(0, MOST_LINES);
  const found = await Promise.all(roots.map((root) => readLine(root, signal)));
  return found.filter((line) => line !== null);
}

async function readLine(root: string, signal: AbortSignal): Promise<Line | null> {
  try {
    const pool: PoolAnswer = await ask(`v1/pools/${segment(root)}`, { signal });
    if (pool.waiting === 0) return { pool, waiting: [] };
    const page: HoldPage = await ask("v1/holds", { query: { pool: root, state: "waiting", limit: MOST }, signal });
    return { pool, waiting: page.items.sort((one, other) => (one.number ?? 0) - (other.number ?? 0)) };
  } catch (error) {
    if (error instanceof Problem && (error.status === 403 || error.status === 404)) return null;
    throw error;
  }
}

/** How many in line get units if so many more are free, or the pool has another total. */
export function offered({ pool, waiting }: Line, freed: number, total = pool.total): number {
  if (pool.archived) return 0;
  let [left, count, skipped] = [pool.available + freed, 0, 0];
  for (const hold of waiting) {
    const wanted = hold.legs[0]?.quantity ?? 0;
    const over = hold.deadline !== null && Date.parse(hold.deadline) <= serverNow();
    if (wanted > total || over) continue;
    if (wanted <= left) {
      left -= wanted;
      count += 1;
    } else if (pool.line === "strict" || ++skipped === SKIPPED) break;
  }
  return count;
}

/** How many get units, of all lines together, if these units become free. */
export function offeredOf(lines: Line[], freed: Map<string, number>): number {
  const byRoot = new Map<string, number>();
  for (const [pool, units] of freed) byRoot.set(rootOf(pool), (byRoot.get(rootOf(pool)) ?? 0) + units);
  return lines.reduce((sum, line) => sum + offered(line, byRoot.get(line.pool.id) ?? 0), 0);
}

export const counted = (count: number, one: string, more: string): string =>
  `${number(count)} ${count === 1 ? one : more}`;

/** The end of a sentence about units that become free. */
export const toWhom = (count: number): string =>
  count === 0 ? "" : `, and ${counted(count, "person in line is", "people in line are")} offered units`;
