/** The server's health: throughput, latency, refusals, durability, and whether the sweeper keeps up. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { sweep, verify } from "../acting/system";
import { ask } from "../api";
import { concerns, look, unknown } from "../attention";
import { useFetched } from "../useFetched";
import { compact, milliseconds, moment, number } from "../format";
import { beginning, History, known } from "../components/History";
import { Notice } from "../components/Notice";
import { Plot, type Curve } from "../components/Plot";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { may, me } from "../store";
import type { ServerHistory, Stats } from "../types";

const tick = signal(0);
/** Seconds of clock skew from which a warning is shown. */
const MOST_SKEW = 5;
const MIB = 1_048_576;
const RATES: Curve[] = [
  { label: "requests per second", colour: "--held" },
  { label: "errors per second", colour: "--danger" },
];
const LATENCIES: Curve[] = [
  { label: "p50", colour: "--held" },
  { label: "p99", colour: "--consumed" },
];
const QUEUE: Curve[] = [{ label: "commands", colour: "--held" }];

export function Health() {
  if (me.value?.operator) return <OfAllTenants />;
  return (
    <>
      <Head title="Health" />
      <Concerns />
      <Notice title="Not allowed with this API key">
        <p class="muted">
          Requests, latencies and the queue cover all tenants: they need an API key of the default tenant, without a
          limit to pools or verbs.
        </p>
      </Notice>
    </>
  );
}

function OfAllTenants() {
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
      <Concerns />
      <Rates />
      <ReadState read={stats} what="statistics">
        {(value) => <Numbers stats={value} />}
      </ReadState>
    </>
  );
}

/** What needs a person, with a link to where it can be mended. */
function Concerns() {
  useEffect(() => void look(), []);
  if (concerns.value.length === 0 && unknown.value.length === 0) return null;
  return (
    <section class="card" data-concerns>
      <h2>Needs attention</h2>
      <ul class="concerns">
        {concerns.value.map(({ text, href }) => (
          <li key={text}>
            <a href={href}>{text}</a>
          </li>
        ))}
      </ul>
      {unknown.value.length > 0 && (
        <p class="muted small">Not known, because it could not be read: {unknown.value.join(", ")}.</p>
      )}
    </section>
  );
}

/** Of the server that answers, since it was started. */
function Rates() {
  return (
    <History
      title="Requests"
      of="server"
      windows={["15m", "1h", "6h"]}
      read={(window, signal) => ask<ServerHistory>("v1/stats/history", { query: { window }, signal })}
    >
      {(value, times) => {
        const since = known(value.requests);
        const from = beginning(value.requests);
        const shown = times.slice(from);
        const rate = (counts: (number | null)[]): (number | null)[] =>
          counts.slice(from).map((count) => (count === null ? null : count / value.step));
        const inMilliseconds = (seconds: (number | null)[]): (number | null)[] =>
          seconds.slice(from).map((one) => (one === null ? null : one * 1_000));
        return (
          <>
            <p class="muted small" data-own>
              Of this server only, since {moment(value.at[since] ?? value.server_time)}
              {since > 0 && ", when it was started or 6 hours ago"}. Prometheus keeps the numbers of all servers.
            </p>
            <Plot
              label="Requests and errors per second"
              curves={RATES}
              data={[shown, rate(value.requests), rate(value.errors)]}
              height={160}
              stepped
            />
            <h3>Latency in milliseconds, of each interval</h3>
            <Plot
              label="Latency of requests in milliseconds"
              curves={LATENCIES}
              data={[shown, inMilliseconds(value.p50), inMilliseconds(value.p99)]}
              height={140}
              stepped
            />
            <h3>Commands waiting in the queue</h3>
            <Plot
              label="Commands waiting in the queue"
              curves={QUEUE}
              data={[shown, value.queue.slice(from)]}
              height={90}
              stepped
            />
          </>
        );
      }}
    </History>
  );
}

/** What a committed answer survives, whether the clocks of the server and of the engine agree, and whether the disk has room. */
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
      {stats.disk !== null && stats.disk.state !== "ok" && (
        <p class="wrong" data-disk={stats.disk.state}>
          The disk of the data is nearly full: {number(stats.disk.free / MIB)} of {number(stats.disk.total / MIB)} MiB
          are free. {stats.disk.state === "full" ? "Nothing new is stored until there is room." : "Make room."}
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
      <p class="muted small">
        Of this server, from {moment(stats.since)} to {moment(stats.server_time)}:
      </p>
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
          <Refusals stats={stats} />
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

function Refusals({ stats }: { stats: Stats }) {
  const rows = Object.entries(stats.refused).sort(([, a], [, b]) => b - a);
  if (rows.length === 0)
    return (
      <p class="muted">
        None from {moment(stats.since)} to {moment(stats.server_time)}.
      </p>
    );
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
