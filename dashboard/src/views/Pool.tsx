/** One pool: its capacity, its use over time, its holds and its history. */
import { useComputed, useSignal } from "@preact/signals";
import { ask, segment } from "../api";
import { now as clockNow, serverNow } from "../clock";
import { useFetched } from "../useFetched";
import { moment, number, shortId } from "../format";
import { readsAllPools } from "../acting/permits";
import { PoolActions } from "../components/ActionButtons";
import { Bar } from "../components/Bar";
import { Countdown, lifeLeft, State } from "../components/Countdown";
import { Timeline } from "../components/Entries";
import { beginning, History, known, RECENT } from "../components/History";
import { Notice } from "../components/Notice";
import { Plot, type Curve } from "../components/Plot";
import { PoolLine } from "../components/PoolLine";
import { inTree, PoolTree } from "../components/PoolTree";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { VirtualList } from "../components/VirtualList";
import { link, linkWith } from "../route";
import { phone } from "../screen";
import { membership, pools, poolsRead, revision, stream } from "../store";
import type { EntryPage, HoldAnswer, HoldPage, PoolAnswer, PoolHistories, PoolHistory } from "../types";
import { Chips } from "./Pools";

type Shown = "held" | "waiting" | "confirmed" | "released" | "expired";
const STATES: [Shown, string][] = [
  ["held", "Held"],
  ["waiting", "Waiting"],
  ["confirmed", "Confirmed"],
  ["released", "Released"],
  ["expired", "Expired"],
];
const CURVES: Curve[] = [
  { label: "total", colour: "--muted", dashed: true },
  { label: "held", colour: "--held", fill: true },
  { label: "consumed", colour: "--consumed", fill: true },
];

const DEMAND: Curve[] = [
  { label: "granted", colour: "--held" },
  { label: "refused", colour: "--danger" },
];

export function PoolView({ id }: { id: string }) {
  void membership.value;
  const live = pools.get(id)?.value ?? null;
  const path = `v1/pools/${segment(id)}`;
  const read = useFetched<PoolAnswer>(
    path,
    (signal) => ask(path, { signal }),
    () => {
      if (!pools.has(id)) void revision.value; // beyond the pools that this page loads: the stream does not report it
    },
  );
  const pool = live ?? read.value;
  // The stream reports a pool that is loaded; the read then only says whether it exists.
  const shown = live === null ? read : { ...read, value: live, error: null, at: Math.max(read.at, poolsRead.value.at) };
  return (
    <>
      <Head over={<a href={link("pools")}>Pools</a>} title={<span class="id">{id}</span>}>
        {pool !== null && <PoolActions pool={pool} after={() => void read.refresh()} />}
      </Head>
      <ReadState read={shown} what="the pool">
        {(pool) => <Figures pool={pool} />}
      </ReadState>
      {pool !== null && (
        <>
          {inTree(pool) && <PoolTree pool={pool} />}
          {pool.waiting > 0 && <PoolLine pool={pool} />}
          <Usage pool={pool} />
          <Holds of={pool} />
          {readsAllPools() && <Changes id={id} />}
        </>
      )}
    </>
  );
}

function Figures({ pool }: { pool: PoolAnswer }) {
  return (
    <>
      <dl class="tiles">
        {(
          [
            ["consumed", pool.consumed, "figure-consumed"],
            ["held", pool.held, "figure-held"],
            ["free", pool.available, ""],
            ["total", pool.total, ""],
          ] as const
        ).map(([name, value, kind]) => (
          <div class="tile" key={name}>
            <dt>{name}</dt>
            <dd class={kind} data-figure={name}>
              {number(value)}
            </dd>
          </div>
        ))}
      </dl>
      <div class="wide-bar">
        <Bar pool={pool} />
        {pool.archived && (
          <p class="wrong" data-archived>
            Archived: this pool grants no new holds. Existing holds can still be confirmed or released.
          </p>
        )}
        {pool.loose > 0 && (
          <p class="muted small" data-loose>
            {number(pool.loose)} consumed {pool.loose === 1 ? "unit belongs" : "units belong"} to holds that are no
            longer kept, and can be returned by pool only.
          </p>
        )}
        {pool.over && (
          <p class="wrong">
            More units are in use than the total, which was lowered. No holds are granted until enough units are
            returned.
          </p>
        )}
      </div>
    </>
  );
}

/** What was recorded, and at its end the pool as it is now. */
function Usage({ pool }: { pool: PoolAnswer }) {
  return (
    <History
      title="Usage"
      of={pool.id}
      windows={["15m", "1h", "24h", "7d"]}
      read={(window, signal) =>
        ask<PoolHistories>("v1/stats/pools", { method: "POST", body: { pools: [pool.id], window }, signal })
      }
    >
      {(value, times) => {
        const [history] = value.pools;
        return history ? <PoolPlots pool={pool} history={history} times={times} step={value.step} /> : null;
      }}
    </History>
  );
}

type Values = (number | null)[];

interface PlotProps {
  pool: PoolAnswer;
  history: PoolHistory;
  times: number[];
  step: number;
}

function PoolPlots({ pool, history, times, step }: PlotProps) {
  const live = !stream.down.value;
  const since = step === RECENT ? known(history.granted) : 0;
  const from = step === RECENT ? beginning(history.granted) : 0;
  const shown = times.slice(from);
  const end = <T,>(values: T[], last: T): T[] => (live ? [...values, last] : values);
  const used: Values = history.held.map((held, index) =>
    held === null ? null : held + (history.consumed[index] ?? 0),
  );
  const data = [
    end(shown, Math.max(serverNow() / 1_000, (times.at(-1) ?? 0) + 0.001)),
    end<number | null>(history.total.slice(from), pool.total),
    end<number | null>(used.slice(from), pool.held + pool.consumed),
    end<number | null>(history.consumed.slice(from), pool.consumed),
  ];
  const held = (index: number): number => (data[2]?.[index] ?? 0) - (data[3]?.[index] ?? 0);
  const reasons = Object.entries(history.reasons).sort(([, a], [, b]) => b - a);
  return (
    <>
      <Plot
        label={`Usage of ${pool.id}: ${pool.consumed} consumed and ${pool.held} held of ${pool.total}`}
        curves={CURVES}
        data={data}
        stepped
        read={(curve, index) => number(curve === 1 ? held(index) : (data[curve + 1]?.[index] ?? 0))}
      />
      <h3>Demand, in holds per interval</h3>
      <Plot
        label={`Demand for ${pool.id}: holds granted and requests refused`}
        curves={DEMAND}
        data={[shown, history.granted.slice(from), history.refused.slice(from)]}
        height={120}
        stepped
      />
      <p class="muted small" data-refused>
        {reasons.length === 0
          ? live
            ? "No refused request was recorded in this time."
            : "Whether requests were refused is not known until the server answers."
          : `Refused in this time: ${reasons.map(([reason, count]) => `${number(count)} ${reason}`).join(", ")}.`}{" "}
        Refusals are those of requests to this server since it was started, of the last 6 hours at most; other servers
        and processes that embed Holdkit do not report theirs.
      </p>
      {since > 0 && (
        <p class="muted small" data-recent>
          Steps of {RECENT} seconds are in the memory of this server, since{" "}
          {moment(new Date((times[since] ?? 0) * 1_000).toISOString())}. 24 h and 7 d are in the database.
        </p>
      )}
    </>
  );
}

const MOST = 1_000;
/** Entries about the pool itself that are shown. */
const CHANGES = 20;

function Holds({ of }: { of: PoolAnswer }) {
  const pool = of.id;
  const state = useSignal<Shown>("held");
  const asked = `${state.value} ${pool}`;
  const holds = useFetched<HoldPage>(
    asked,
    (signal) => ask("v1/holds", { query: { pool, state: state.peek(), limit: MOST }, signal }),
    () => void [membership.value, pools.get(pool)?.value],
  );
  const list = holds.value?.items ?? [];
  return (
    <section class="section">
      <div class="section-head">
        <h2>Holds</h2>
        <Chips names={STATES} chosen={state} />
        {list.length > 0 && (
          <span class="muted count">
            {holds.value?.next ? (
              <>
                showing the first {number(MOST)},{" "}
                <a href={linkWith("holds", { pool, state: state.value })}>find others</a>
              </>
            ) : (
              number(list.length)
            )}
          </span>
        )}
      </div>
      <ReadState
        part
        read={holds}
        what="the holds"
        isEmpty={(page) => page.items.length === 0}
        empty={<NoHolds state={state.value} pool={of} />}
      >
        {() => (
          <div class="table">
            <VirtualList
              label="Holds"
              count={list.length}
              rowHeight={phone.value ? 64 : 44}
              keyOf={(index) => list[index]?.id ?? ""}
              row={(index) => {
                const hold = list[index];
                return hold && <HoldRow hold={hold} pool={pool} />;
              }}
            />
          </div>
        )}
      </ReadState>
    </section>
  );
}

function NoHolds({ state, pool }: { state: Shown; pool: PoolAnswer }) {
  const below =
    pool.children > 0 && state !== "waiting" ? " Holds on the pools below it are listed there: see the tree." : "";
  const said = {
    held: below && pool.held > 0 ? `Its ${number(pool.held)} held units are held below it.` : "Nothing of it is held.",
    waiting: "Nobody waits in line.",
    ended: "Ended holds are listed until their retention period is over.",
  };
  return (
    <Notice title={`No ${state} holds${below && " on this pool itself"}`}>
      <p class="muted">
        {state === "held" || state === "waiting" ? said[state] : said.ended}
        {below}
      </p>
    </Notice>
  );
}

/** Since when, and until when. */
function lifetime({ held_at, joined_at, deadline, ended_at }: HoldAnswer): string {
  const since = held_at ?? joined_at;
  const until = ended_at ?? deadline;
  return [since && `since ${moment(since)}`, until && `until ${moment(until)}`].filter(Boolean).join(", ");
}

function HoldRow({ hold, pool }: { hold: HoldAnswer; pool: string }) {
  const leg = hold.legs.find((one) => one.pool === pool);
  const left = lifeLeft(hold, clockNow.value);
  return (
    <a class="row hold-row" href={link("hold", hold.id)} title={lifetime(hold)} tabIndex={-1}>
      <span class="id">{shortId(hold.id)}</span>
      <span class="hold-units">
        <b>{number((hold.state === "held" ? leg?.held : leg?.quantity) ?? 0)}</b>{" "}
        {hold.legs.length > 1 && <span class="muted">of {hold.legs.length} pools</span>}
      </span>
      <span class="muted hold-who">{[hold.entity, hold.actor].filter(Boolean).join(" · ")}</span>
      {left === null ? (
        <State state={hold.state} />
      ) : (
        <span class="life">
          <i style={{ width: `${left * 100}%` }} />
        </span>
      )}
      <Countdown hold={hold} />
    </a>
  );
}

/** When the pool was created, resized and archived: the newest entries about it, as far back as one request searches. */
function Changes({ id }: { id: string }) {
  const total = useComputed(() => (void membership.value, pools.get(id)?.value.total));
  const history = useFetched<EntryPage>(
    `changes ${id}`,
    (signal) => ask("v1/journal", { query: { order: "newest", subject: id, limit: CHANGES }, signal }),
    () => void [membership.value, total.value],
  );
  const past = <a href={linkWith("past", { subject: id })}>past journal</a>;
  return (
    <section class="card">
      <h2>Pool history</h2>
      <ReadState
        part
        read={history}
        what="the pool's history"
        isEmpty={(page) => page.items.length === 0}
        empty={
          <p class="muted">
            {history.value?.next ? "No recent entry" : "The journal has no entry"} about this pool itself.
            {history.value?.next && <> The {past} goes further back.</>}
          </p>
        }
      >
        {(page) => (
          <>
            <Timeline entries={[...page.items].reverse()} />
            {page.next !== null && <p class="muted small">Only the newest; the {past} goes further back.</p>}
          </>
        )}
      </ReadState>
    </section>
  );
}
