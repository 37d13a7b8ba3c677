/** One pool: its capacity, its use over time, its holds and its history. */
import { useComputed, useSignal } from "@preact/signals";
import { resizePool } from "../actions";
import { ask, segment } from "../api";
import { now as clockNow, serverNow } from "../clock";
import { useFetched } from "../useFetched";
import { number, shortId } from "../format";
import { Bar } from "../components/Bar";
import { Countdown, lifeLeft, State } from "../components/Countdown";
import { Timeline } from "../components/Entries";
import { ErrorNotice, Notice, Loading } from "../components/Notice";
import { Plot, type Curve } from "../components/Plot";
import { Head } from "../components/Shell";
import { VirtualList } from "../components/VirtualList";
import { link } from "../route";
import { phone } from "../screen";
import { may, membership, pools, revision, samples } from "../store";
import type { EntryPage, HoldAnswer, HoldPage, PoolAnswer } from "../types";
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
  if (pool === null)
    return (
      <>
        <Head over={<a href={link("pools")}>Pools</a>} title={<span class="id">{id}</span>} />
        {read.error ? (
          <ErrorNotice error={read.error} retry={() => void read.refresh()} />
        ) : (
          <Loading what="the pool" />
        )}
      </>
    );
  return (
    <>
      <Head over={<a href={link("pools")}>Pools</a>} title={<span class="id">{id}</span>}>
        {may("admin") && (
          <button type="button" class="button" onClick={() => resizePool(pool, () => void read.refresh())}>
            Change total
          </button>
        )}
      </Head>
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
      <Usage pool={pool} />
      <Holds pool={id} />
      <Changes id={id} />
    </>
  );
}

/** The last minutes: the samples of this page, and before them the last entries of the journal. */
function Usage({ pool }: { pool: PoolAnswer }) {
  const tailOf = useFetched<EntryPage>(
    pool.id,
    (signal) => ask("v1/journal", { query: { last: 1_000 }, signal }),
    () => undefined,
  );
  void revision.value;
  const seen = samples.of(pool.id);
  const from = seen[0]?.[0] ?? Infinity;
  const points: [number, number, number, number][] = [];
  for (const entry of tailOf.value?.items ?? []) {
    const at = Date.parse(entry.at);
    if (at >= from) break;
    for (const effect of entry.pools)
      if (effect.pool.id === pool.id) points.push([at, effect.pool.total, effect.pool.held, effect.pool.consumed]);
  }
  points.push(...seen);
  points.push([Math.max(serverNow(), (points.at(-1)?.[0] ?? 0) + 1), pool.total, pool.held, pool.consumed]);
  const data = [
    points.map(([at]) => at / 1_000),
    points.map(([, total]) => total),
    points.map(([, , held, consumed]) => held + consumed),
    points.map(([, , , consumed]) => consumed),
  ];
  const held = (index: number): number => (data[2]?.[index] ?? 0) - (data[3]?.[index] ?? 0);
  return (
    <section class="card">
      <h2>Usage over time</h2>
      <Plot
        label={`Usage of ${pool.id}: ${pool.consumed} consumed and ${pool.held} held of ${pool.total}`}
        curves={CURVES}
        data={data}
        stepped
        read={(curve, index) => number(curve === 1 ? held(index) : (data[curve + 1]?.[index] ?? 0))}
      />
    </section>
  );
}

const MOST = 1_000;

function Holds({ pool }: { pool: string }) {
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
            {holds.value?.next ? `showing the first ${number(MOST)}` : number(list.length)}
          </span>
        )}
      </div>
      {holds.error !== null && <ErrorNotice error={holds.error} retry={() => void holds.refresh()} />}
      {list.length > 0 ? (
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
      ) : holds.value === null ? (
        <Loading what="the holds" />
      ) : (
        <Notice title={`No ${state.value} holds`}>
          <p class="muted">
            {state.value === "held"
              ? "All units that are not consumed are available."
              : state.value === "waiting"
                ? "Nobody waits in line."
                : "Ended holds are listed until their retention period is over."}
          </p>
        </Notice>
      )}
    </section>
  );
}

function HoldRow({ hold, pool }: { hold: HoldAnswer; pool: string }) {
  const leg = hold.legs.find((one) => one.pool === pool);
  const left = lifeLeft(hold, clockNow.value);
  return (
    <a class="row hold-row" href={link("hold", hold.id)} tabIndex={-1}>
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

/** When the pool was created, resized and archived. */
function Changes({ id }: { id: string }) {
  const path = `v1/pools/${segment(id)}/history`;
  const total = useComputed(() => (void membership.value, pools.get(id)?.value.total));
  const history = useFetched<EntryPage>(
    path,
    (signal) => ask(path, { signal }),
    () => void [membership.value, total.value],
  );
  if (!history.value || history.value.items.length === 0) return null;
  return (
    <section class="card">
      <h2>Pool history</h2>
      <Timeline entries={history.value.items.slice(-50)} />
    </section>
  );
}
