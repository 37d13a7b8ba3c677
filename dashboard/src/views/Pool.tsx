/** One pool: what it has, how that went, who holds it and until when. */
import { useComputed, useSignal } from "@preact/signals";
import { resizePool } from "../actions";
import { ask, segment } from "../api";
import { now as clockNow, serverNow } from "../clock";
import { useFetched } from "../fetched";
import { number, tail } from "../format";
import { Bar } from "../parts/Bar";
import { Countdown, lifeLeft, State } from "../parts/Countdown";
import { Story } from "../parts/Entries";
import { Broken, Notice, Waiting } from "../parts/Notice";
import { Plot, type Curve } from "../parts/Plot";
import { Head } from "../parts/Shell";
import { Virtual } from "../parts/Virtual";
import { link } from "../route";
import { phone } from "../screen";
import { may, membership, pools, revision, samples } from "../store";
import type { Entry, Hold, Page, Pool } from "../types";
import { Chips } from "./Pools";

type Shown = "held" | "confirmed" | "released" | "expired";
const STATES: [Shown, string][] = [
  ["held", "Held"],
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
  const read = useFetched<Pool>(
    path,
    (signal) => ask(path, { signal }),
    () => {
      if (!pools.has(id)) void revision.value; // one of too many to be told of by itself
    },
  );
  const pool = live ?? read.value;
  if (pool === null)
    return (
      <>
        <Head over={<a href={link("pools")}>Pools</a>} title={<span class="id">{id}</span>} />
        {read.error ? <Broken error={read.error} again={() => void read.refresh()} /> : <Waiting what="the pool" />}
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
            Archived: it grants nothing more. What is held or consumed goes on as ever.
          </p>
        )}
        {pool.loose > 0 && (
          <p class="muted small" data-loose>
            {number(pool.loose)} of what is consumed belongs to no hold that is kept any longer: it can be returned by
            pool only.
          </p>
        )}
        {pool.over && (
          <p class="wrong">
            More is in use than there is: the total was lowered. Nothing is granted until enough came back.
          </p>
        )}
      </div>
      <Usage pool={pool} />
      <Holds pool={id} />
      <Changes id={id} />
    </>
  );
}

/** The last minutes: what this page saw, before that what the end of the journal tells. */
function Usage({ pool }: { pool: Pool }) {
  const tailOf = useFetched<Page<Entry>>(
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
      <h2>Use over time</h2>
      <Plot
        label={`Use of ${pool.id}: ${pool.consumed} consumed and ${pool.held} held of ${pool.total}`}
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
  const holds = useFetched<Page<Hold>>(
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
          <span class="muted count">{holds.value?.next ? `the first ${number(MOST)}` : number(list.length)}</span>
        )}
      </div>
      {holds.error !== null && <Broken error={holds.error} again={() => void holds.refresh()} />}
      {list.length > 0 ? (
        <div class="table">
          <Virtual
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
        <Waiting what="the holds" />
      ) : (
        <Notice title={`Nothing is ${state.value}`}>
          <p class="muted">
            {state.value === "held"
              ? "All that is not consumed is free to be held."
              : "Ended holds are kept for a while."}
          </p>
        </Notice>
      )}
    </section>
  );
}

function HoldRow({ hold, pool }: { hold: Hold; pool: string }) {
  const leg = hold.legs.find((one) => one.pool === pool);
  const left = lifeLeft(hold, clockNow.value);
  return (
    <a class="row hold-row" href={link("hold", hold.id)} tabIndex={-1}>
      <span class="id">{tail(hold.id)}</span>
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

/** When the pool was made and resized. */
function Changes({ id }: { id: string }) {
  const path = `v1/pools/${segment(id)}/history`;
  const total = useComputed(() => (void membership.value, pools.get(id)?.value.total));
  const history = useFetched<Page<Entry>>(
    path,
    (signal) => ask(path, { signal }),
    () => void [membership.value, total.value],
  );
  if (!history.value || history.value.items.length === 0) return null;
  return (
    <section class="card">
      <h2>Changes of the pool</h2>
      <Story entries={history.value.items.slice(-50)} />
    </section>
  );
}
