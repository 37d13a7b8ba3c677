/** Sagas: work of several steps that is driven to its end; what is stuck comes first. */
import { useSignal } from "@preact/signals";
import { ask } from "../api";
import { now } from "../clock";
import { useFetched } from "../fetched";
import { moment, number, span } from "../format";
import { offers } from "../offers";
import { NotOffered } from "../parts/Lookup";
import { Broken, Notice, Waiting } from "../parts/Notice";
import { Head } from "../parts/Shell";
import { link } from "../route";
import { revision } from "../store";
import type { Page, Saga } from "../types";
import { Chips } from "./Pools";

const MOST = 200;
const WHAT =
  "A saga is work of several steps that owns a hold and is driven to its end after any crash: done, aborted or parked.";
/** An unfinished saga that has been in its phase for longer wants somebody to look at it. */
const LONG = 5 * 60_000;
const ENDED = ["done", "aborted", "cancelled"];

type Shown = "stuck" | "all" | "done";
const SHOWN: [Shown, string][] = [
  ["all", "All"],
  ["stuck", "Stuck"],
  ["done", "Ended"],
];

export const isStuck = (saga: Saga, at: number): boolean =>
  saga.phase === "parked" || (!ENDED.includes(saga.phase) && at - Date.parse(saga.since) > LONG);

export function Sagas() {
  if (offers("get", "/v1/sagas") === false) return <NotOffered title="Sagas" what={WHAT} />;
  return <List />;
}

function List() {
  const shown = useSignal<Shown>("all");
  const found = useFetched<Page<Saga>>(
    "sagas",
    (signal) => ask("v1/sagas", { query: { limit: MOST }, signal }),
    () => void revision.value,
  );
  const all = found.value?.items ?? [];
  const stuck = all.filter((saga) => isStuck(saga, now.value));
  const list =
    shown.value === "stuck" ? stuck : shown.value === "done" ? all.filter((saga) => ENDED.includes(saga.phase)) : all;
  return (
    <>
      <Head title="Sagas" />
      <div class="tools">
        <Chips names={SHOWN} chosen={shown} />
        {stuck.length > 0 && <span class="wrong">{number(stuck.length)} stuck</span>}
        <span class="muted count">{found.value?.next ? `the first ${number(MOST)}` : number(list.length)}</span>
      </div>
      {found.value === null ? (
        found.error ? (
          <Broken error={found.error} again={() => void found.refresh()} />
        ) : (
          <Waiting what="the sagas" />
        )
      ) : list.length === 0 ? (
        <Notice title={shown.value === "stuck" ? "Nothing is stuck" : "No sagas"}>
          <p class="muted">{WHAT}</p>
        </Notice>
      ) : (
        list.map((saga) => <One key={saga.id} saga={saga} />)
      )}
    </>
  );
}

function One({ saga }: { saga: Saga }) {
  const stuck = isStuck(saga, now.value);
  return (
    <section class="card saga" data-stuck={stuck ? "" : undefined}>
      <div class="story-line">
        <strong class="id">{saga.id}</strong>
        <span class="badge" data-kind={stuck ? "expired" : saga.phase === "done" ? "confirmed" : "held"}>
          {saga.phase}
        </span>
        <span class="muted">{saga.name}</span>
      </div>
      <p class="muted small">
        in this phase for {span(now.value - Date.parse(saga.since))} · begun {moment(saga.begun_at)}
        {saga.attempt > 1 && ` · attempt ${number(saga.attempt)}`}
        {saga.failures > 0 && ` · failed ${number(saga.failures)} times`}
        {saga.hold !== null && (
          <>
            {" · "}
            <a href={link("hold", saga.hold)}>its hold</a>
          </>
        )}
      </p>
      {saga.error !== null && (
        <p class="wrong">
          <code>{saga.error.kind}</code> {saga.error.message}
        </p>
      )}
      {saga.phase === "parked" && (
        <p class="small">It waits for a decision: mend what is wrong, then resolve it as done or cancelled.</p>
      )}
    </section>
  );
}
