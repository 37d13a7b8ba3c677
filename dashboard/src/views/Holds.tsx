/** Holds by every filter, a page at a time, from either end. */
import { Countdown, State } from "../components/Countdown";
import { Notice } from "../components/Notice";
import { PagedView, type Filter } from "../components/PagedView";
import { findHolds } from "../finding";
import { poolName } from "../faces";
import { number, shortId, stamp } from "../format";
import { link } from "../route";
import type { HoldAnswer, State as HoldState } from "../types";

const STATES: Record<HoldState, string> = {
  waiting: "Waiting",
  held: "Held",
  confirmed: "Confirmed",
  released: "Released",
  expired: "Expired",
};
const FILTERS: Filter[] = [
  { name: "pool", label: "Pool", placeholder: "show:42" },
  { name: "state", label: "State", options: [["", "All"], ...Object.entries(STATES)] },
  { name: "entity", label: "Entity", placeholder: "order:9" },
  { name: "actor", label: "Actor", placeholder: "user:7" },
  { name: "account", label: "Account", placeholder: "customer:7" },
  { name: "from", label: "Placed since", placeholder: "2h, or 2026-05-01T12:30" },
  { name: "to", label: "Placed before", placeholder: "30m, or a date" },
  {
    name: "order",
    label: "Order",
    options: [
      ["", "Newest first"],
      ["oldest", "Oldest first"],
    ],
  },
];

export function Holds() {
  return (
    <PagedView
      view="holds"
      title="Holds"
      one="hold"
      what="holds"
      filters={FILTERS}
      find={findHolds}
      keyOf={(hold) => hold.id}
      row={(hold) => <HoldRow hold={hold} />}
      rowHeight={[44, 64]}
      columns={
        <div class="table-head row found-hold" aria-hidden="true">
          <span>hold</span>
          <span>state</span>
          <span>pools</span>
          <span>for and by</span>
          <span>placed</span>
          <span class="figure">left, or ended</span>
        </div>
      }
      empty={
        <Notice title="No holds yet">
          <p class="muted">A hold takes units of one or more pools until it is confirmed, released or expires.</p>
        </Notice>
      }
    />
  );
}

function HoldRow({ hold }: { hold: HoldAnswer }) {
  const [leg, ...others] = hold.legs;
  const placed = hold.joined_at ?? hold.held_at;
  return (
    <a class="row found-hold" href={link("hold", hold.id)} tabIndex={-1}>
      <span class="id">{shortId(hold.id)}</span>
      <State state={hold.state} />
      <span class="found-legs">
        {leg && (
          <>
            <b>{number(leg.quantity)}</b> <span class="id">{poolName(leg.pool, leg.name)}</span>
          </>
        )}
        {others.length > 0 && <span class="muted"> and {number(others.length)} more</span>}
      </span>
      <span class="muted hold-who">{[hold.entity, hold.account, hold.actor].filter(Boolean).join(" · ")}</span>
      <span class="muted placed">{placed ? stamp(placed) : ""}</span>
      <span class="figure">
        <Countdown hold={hold} />
      </span>
    </a>
  );
}
