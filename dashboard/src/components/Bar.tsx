/** The consumed, held and free units of one pool, as a bar and as numbers. */
import { compact, number, percent } from "../format";
import type { PoolAnswer } from "../types";

export function Bar({ pool }: { pool: PoolAnswer }) {
  const whole = Math.max(pool.total, pool.held + pool.consumed);
  const said = `${number(pool.consumed)} consumed, ${number(pool.held)} held, ${number(pool.available)} free of ${number(pool.total)}`;
  return (
    <span class="bar" role="img" aria-label={said} data-over={pool.over ? "" : undefined}>
      <span class="bar-consumed" style={{ width: `${percent(pool.consumed, whole)}%` }} />
      <span class="bar-held" style={{ width: `${percent(pool.held, whole)}%` }} />
    </span>
  );
}

export function Figures({ pool }: { pool: PoolAnswer }) {
  return (
    <>
      <span class="figure figure-consumed">{compact(pool.consumed)}</span>
      <span class="figure figure-held">{compact(pool.held)}</span>
      <span class="figure figure-free">{compact(pool.available)}</span>
      <span class="figure figure-total">{compact(pool.total)}</span>
    </>
  );
}
