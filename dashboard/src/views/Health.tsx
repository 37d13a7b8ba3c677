/** How the server does: what it decides, how fast, what it refuses, whether the sweeper keeps up. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { sweep, verify } from "../actions";
import { ask } from "../api";
import { useFetched } from "../fetched";
import { brief, milliseconds, moment, number } from "../format";
import { Broken, Waiting } from "../parts/Notice";
import { Plot, type Curve } from "../parts/Plot";
import { Head } from "../parts/Shell";
import { beats, may, revision } from "../store";
import type { Stats } from "../types";

const beat = signal(0);
/** Seconds: clocks further apart than this are shown. */
const SKEW = 5;
const CURVES: Curve[] = [
  { label: "held", colour: "--held" },
  { label: "confirmed", colour: "--consumed" },
  { label: "released", colour: "--released" },
  { label: "expired", colour: "--danger" },
];

export function Health() {
  useEffect(() => {
    const timer = setInterval(() => (beat.value += 1), 2_000);
    return () => clearInterval(timer);
  }, []);
  const stats = useFetched<Stats>(
    "v1/stats",
    (signal) => ask("v1/stats", { signal }),
    () => void beat.value,
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
        <Broken error={stats.error} again={() => void stats.refresh()} />
      ) : (
        <Waiting what="the numbers" />
      )}
    </>
  );
}

/** What happened per second, over the minutes this page has been open. */
function Rates() {
  void revision.value;
  const seconds = new Map<number, number[]>();
  const first = beats.items[0];
  const last = beats.items.at(-1);
  if (first && last)
    for (let second = Math.floor(first.at / 1_000); second <= Math.floor(last.at / 1_000); second += 1)
      seconds.set(second, [0, 0, 0, 0]);
  for (const { at, actions } of beats.items) {
    const row = seconds.get(Math.floor(at / 1_000));
    if (!row) continue;
    for (const [action, count] of Object.entries(actions)) {
      const place = CURVES.findIndex((curve) => action === `hold.${curve.label}`);
      if (place >= 0) row[place] = (row[place] ?? 0) + count;
    }
  }
  const whole = [...seconds].slice(0, -1); // the last second is not over yet
  const data = [whole.map(([second]) => second), ...CURVES.map((_, place) => whole.map(([, row]) => row[place] ?? 0))];
  return (
    <section class="card">
      <h2>Holds per second</h2>
      <Plot label="Holds placed, confirmed, released and expired per second" curves={CURVES} data={data} height={180} />
    </section>
  );
}

/** What a done answer survives, and whether the server's machine and the clock that decides agree. */
function Durable({ stats }: { stats: Stats }) {
  const { level, says, advice } = stats.durability;
  const risky = level === "asynchronous_standby" || level === "unsafe";
  const apart = Math.abs(stats.clock_lag);
  return (
    <section class="card" data-durability={level}>
      <h2>Durability</h2>
      <p class={risky ? "wrong" : ""}>
        <code>{level}</code> {says}.
      </p>
      {advice !== "" && <p class="muted small">To change that: {advice}.</p>}
      {apart > SKEW && (
        <p class="wrong" data-clock>
          The clocks of the server's machine and of the database differ by {apart.toFixed(1)} s: the database's decides.
        </p>
      )}
    </section>
  );
}

function Numbers({ stats }: { stats: Stats }) {
  const mean = stats.batches.count > 0 ? stats.batches.commands / stats.batches.count : 0;
  const tiles: [string, string, string?][] = [
    ["median answer", milliseconds(stats.latency.p50)],
    ["90 % within", milliseconds(stats.latency.p90)],
    ["99 % within", milliseconds(stats.latency.p99)],
    ["per commit", mean.toFixed(1)],
    ["waiting", brief(stats.queue)],
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
            Transactions by how many commands shared them. The largest had {number(stats.batches.largest)}.
          </p>
          <Histogram counts={stats.batches.sizes} />
        </section>
        <section class="card">
          <h2>Refusals</h2>
          <Refusals refused={stats.refused} />
        </section>
      </div>
      <Durable stats={stats} />
      <p class="muted small">
        {number(stats.requests)} requests since {moment(stats.since)} · {number(stats.streams)}{" "}
        {stats.streams === 1 ? "stream" : "streams"} open · the sweeper ended {number(stats.sweeper.expired)} holds in{" "}
        {number(stats.sweeper.sweeps)} sweeps
      </p>
    </>
  );
}

/** Place n counts batches of 2^n to 2^(n+1)−1 commands. */
function Histogram({ counts }: { counts: number[] }) {
  const last = counts.reduce((found, count, place) => (count > 0 ? place : found), 0);
  const shown = counts.slice(0, Math.max(last, 5) + 1);
  const most = Math.max(1, ...shown);
  return (
    <ol class="histogram">
      {shown.map((count, place) => {
        const [low, high] = [2 ** place, 2 ** (place + 1) - 1];
        return (
          <li key={place}>
            <span>{low === high ? low : `${low}–${high}`}</span>
            <span class="histogram-bar">
              <i style={{ width: `${(100 * count) / most}%` }} />
            </span>
            <b class="figure">{brief(count)}</b>
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
