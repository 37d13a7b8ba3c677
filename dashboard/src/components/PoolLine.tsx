/** The line of a pool: who is next, for how many units, since when, and until when they wait. */
import { ask, segment } from "../api";
import { now } from "../clock";
import { number, shortId, span } from "../format";
import { ReadState } from "./ReadState";
import { ShowMore } from "./ShowMore";
import { link } from "../route";
import { membership, pools, revision } from "../store";
import type { HoldAnswer, LinePage, PoolAnswer } from "../types";
import { usePages } from "../usePages";

const PAGE = 10;

export function PoolLine({ pool }: { pool: PoolAnswer }) {
  const path = `v1/pools/${segment(pool.id)}/line`;
  const pages = usePages<HoldAnswer>(
    path,
    async (after, signal) => {
      const page = await ask<LinePage>(path, { query: { after: after || undefined, limit: PAGE }, signal });
      return { items: page.items, next: page.next === null ? null : String(page.next) };
    },
    () => void [membership.value, pools.get(pool.id)?.value ?? revision.value],
  );
  return (
    <section class="card" data-line>
      <h2>
        Line{" "}
        <span class="muted">
          {number(pool.waiting)} {pool.waiting === 1 ? "waits" : "wait"}
        </span>
      </h2>
      <p class="muted small">
        {pool.line === "strict"
          ? "Units are offered in this order; nobody is passed over."
          : "Units are offered to whoever fits of the first 100, in this order."}
      </p>
      <ReadState
        part
        read={pages.read}
        what="the line"
        isEmpty={(page) => page.items.length === 0}
        empty={<p class="muted">Nobody waits.</p>}
      >
        {(page) => (
          <>
            <div class="scroll" tabIndex={0} role="region" aria-label="Line">
              <table class="plain">
                <thead>
                  <tr>
                    <th scope="col">place</th>
                    <th scope="col">hold</th>
                    <th scope="col" class="figure">
                      units
                    </th>
                    <th scope="col" class="who">
                      for
                    </th>
                    <th scope="col" class="figure">
                      has waited
                    </th>
                    <th scope="col" class="figure">
                      at most for
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((hold, index) => (
                    <Waiter key={hold.id} hold={hold} place={index + 1} pool={pool} />
                  ))}
                </tbody>
              </table>
            </div>
            <ShowMore pages={pages} />
          </>
        )}
      </ReadState>
    </section>
  );
}

function Waiter({ hold, place, pool }: { hold: HoldAnswer; place: number; pool: PoolAnswer }) {
  const units = hold.legs[0]?.quantity ?? 0;
  const who = [hold.account, hold.entity, hold.actor].filter(Boolean).join(" · ");
  return (
    <tr data-next={place === 1 ? "" : undefined}>
      <td>{place === 1 ? <span class="badge">next</span> : number(place)}</td>
      <td>
        <a class="id" href={link("hold", hold.id)}>
          {shortId(hold.id)}
        </a>
      </td>
      <td class="figure">
        {number(units)}
        {units > pool.total && (
          <span class="wrong" title="It asks for more than the total, and is passed over until that is larger.">
            {" "}
            &gt; total
          </span>
        )}
      </td>
      <td class="who">
        <bdi>{who}</bdi>
      </td>
      <td class="figure">{hold.joined_at ? span(Math.max(0, now.value - Date.parse(hold.joined_at))) : ""}</td>
      <td class="figure">{hold.deadline ? span(Date.parse(hold.deadline) - now.value) : ""}</td>
    </tr>
  );
}
