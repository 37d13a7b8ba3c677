/** The server's health: throughput, latency, refusals, durability, and whether the sweeper keeps up. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { sweep, verify } from "../actions";
import { ask } from "../api";
import { useFetched } from "../useFetched";
import { compact, milliseconds, moment, number } from "../format";
import { ErrorNotice, Loading } from "../components/Notice";
import { Plot, type Curve } from "../components/Plot";
import { Head } from "../components/Shell";
import { summarySamples, may, revision } from "../store";
import type { Stats } from "../types";

const tick = signal(0);
/** Seconds of clock skew from which a warning is shown. */
const MOST_SKEW = 5;
const CURVES: Curve[] = [
  { label: "held", colour: "--held" },
  { label: "confirmed", colour: "--consumed" },
  { label: "released", colour: "--released" },
  { label: "expired", colour: "--danger" },
];

export function Health() {
  useEffect(() => {
    const timer = setInterval(() => (tick.value += 1), 2_000);
    return () => clearInterval(timer);
  }, []);
  const stats = useFetched<Stats>(
    "v1/stats",
    (signal) => ask("v1/stats", { signal }),
    () => void tick.value,
  );
  return (
    <>
      <Head title="Health">
        {may("admin") && (
          <>
            <button type="button" class="button" onClick={verify}>
              Verify
            </button>
            <button type="button" class="button" onClick={() => sweep(() => void stats.refresh())}>
              Sweep now
            </button>
          </>
        )}
      </Head>
      <Rates />
      {stats.value ? (
        <Numbers stats={stats.value} />
      ) : stats.error ? (
        <ErrorNotice error={stats.error} retry={() => void stats.refresh()} />
      ) : (
        <Loading what="statistics" />
      )}
    </>
  );
}

/** Holds per second since this page was opened. */
function Rates() {
  void revision.value;
  const seconds = new Map<number, number[]>();
  const first = summarySamples.items[0];
  const last = summarySamples.items.at(-1);
  if (first && last)
    for (let second = Math.floor(first.at / 1_000); second <= Math.floor(last.at / 1_000); second += 1)
      seconds.set(second, [0, 0, 0, 0]);
  for (const { at, actions } of summarySamples.items) {
    const row = seconds.get(Math.floor(at / 1_000));
    if (!row) continue;
    for (const [action, count] of Object.entries(actions)) {
      const bucket = CURVES.findIndex((curve) => action === `hold.${curve.label}`);
      if (bucket >= 0) row[bucket] = (row[bucket] ?? 0) + count;
    }
  }
  const whole = [...seconds].slice(0, -1); // the last second is incomplete
  const data = [
    whole.map(([second]) => second),
    ...CURVES.map((_, bucket) => whole.map(([, row]) => row[bucket] ?? 0)),
  ];
  return (
    <section class="card">
      <h2>Holds per second</h2>
      <Plot label="Holds placed, confirmed, released and expired per second" curves={CURVES} data={data} height={180} />
    </section>
  );
}

/** What a committed answer survives, and whether the clocks of the server and of the engine agree. */
function DurabilityCard({ stats }: { stats: Stats }) {
  const { level, says, advice } = stats.durability;
  const risky = level === "asynchronous_standby" || level === "unsafe";
  const skew = Math.abs(stats.clock_lag);
  return (
    <section class="card" data-durability={level}>
      <h2>Durability</h2>
      <p class={risky ? "wrong" : ""}>
        <code>{level}</code> {says}.
      </p>
      {advice !== "" && <p class="muted small">To improve this: {advice}.</p>}
      {skew > MOST_SKEW && (
        <p class="wrong" data-clock>
          The clocks of the server and of the database differ by {skew.toFixed(1)} s. The database's clock is used.
        </p>
      )}
    </section>
  );
}

function Numbers({ stats }: { stats: Stats }) {
  const mean = stats.batches.count > 0 ? stats.batches.commands / stats.batches.count : 0;
  const tiles: [string, string, string?][] = [
    ["p50 latency", milliseconds(stats.latency.p50)],
    ["p90 latency", milliseconds(stats.latency.p90)],
    ["p99 latency", milliseconds(stats.latency.p99)],
    ["mean batch size", mean.toFixed(1)],
    ["queue length", compact(stats.queue)],
    [
      "sweeper lag",
      stats.sweeper.running ? milliseconds(stats.sweeper.lag) : "off",
      stats.sweeper.lag > 10 ? "figure-full" : "",
    ],
  ];
  return (
    <>
      <dl class="tiles">
        {tiles.map(([name, value, kind]) => (
          <div class="tile" key={name}>
            <dt>{name}</dt>
            <dd class={kind}>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="columns">
        <section class="card">
          <h2>Group commit</h2>
          <p class="muted small">
            Transactions by number of commands. The largest had {number(stats.batches.largest)}.
          </p>
          <Histogram counts={stats.batches.sizes} />
        </section>
        <section class="card">
          <h2>Refusals</h2>
          <Refusals refused={stats.refused} />
        </section>
      </div>
      <DurabilityCard stats={stats} />
      <p class="muted small">
        {number(stats.requests)} requests since {moment(stats.since)} · {number(stats.streams)} open{" "}
        {stats.streams === 1 ? "stream" : "streams"} · {number(stats.sweeper.expired)} holds expired in{" "}
        {number(stats.sweeper.sweeps)} sweeps
      </p>
    </>
  );
}

/** Bucket n counts batches of 2^n to 2^(n+1)−1 commands. */
function Histogram({ counts }: { counts: number[] }) {
  const last = counts.reduce((found, count, bucket) => (count > 0 ? bucket : found), 0);
  const shown = counts.slice(0, Math.max(last, 5) + 1);
  const most = Math.max(1, ...shown);
  return (
    <ol class="histogram">
      {shown.map((count, bucket) => {
        const [low, high] = [2 ** bucket, 2 ** (bucket + 1) - 1];
        return (
          <li key={bucket}>
            <span>{low === high ? low : `${low}–${high}`}</span>
            <span class="histogram-bar">
              <i style={{ width: `${(100 * count) / most}%` }} />
            </span>
            <b class="figure">{compact(count)}</b>
          </li>
        );
      })}
    </ol>
  );
}

function Refusals({ refused }: { refused: Record<string, number> }) {
  const rows = Object.entries(refused).sort(([, a], [, b]) => b - a);
  if (rows.length === 0) return <p class="muted">None since the server started.</p>;
  return (
    <table class="plain">
      <tbody>
        {rows.slice(0, 20).map(([name, count]) => {
          const cut = name.indexOf(".");
          return (
            <tr key={name}>
              <td>
                <code>{name.slice(cut + 1)}</code> <span class="muted">{name.slice(0, cut).replace("_", " ")}</span>
              </td>
              <td class="figure">{number(count)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
