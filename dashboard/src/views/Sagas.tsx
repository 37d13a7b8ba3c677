/** Sagas: work of several steps that is driven to its end; what is stuck comes first. */
import { useSignal } from "@preact/signals";
import { resolveSaga } from "../actions";
import { ask } from "../api";
import { useFetched } from "../fetched";
import { moment, number } from "../format";
import { offers } from "../offers";
import { NotOffered } from "../parts/Lookup";
import { Broken, Notice, Waiting } from "../parts/Notice";
import { Head } from "../parts/Shell";
import { link } from "../route";
import { may, revision } from "../store";
import type { Page, Saga } from "../types";
import { Chips } from "./Pools";

const MOST = 200;
const WHAT =
  "A saga is work of several steps that owns a hold and is driven to its end after any crash: done, aborted, or parked for a person to decide.";

type Shown = "all" | "stuck" | "reserving" | "finalizing" | "parked" | "done" | "aborted";
const SHOWN: [Shown, string][] = [
  ["all", "All"],
  ["stuck", "Stuck"],
  ["reserving", "Reserving"],
  ["finalizing", "Finalizing"],
  ["parked", "Parked"],
  ["done", "Done"],
  ["aborted", "Aborted"],
];

const ENDED = ["done", "aborted"];
const KINDS: Record<string, string> = { done: "confirmed", aborted: "released", parked: "expired" };

function find(shown: Shown, signal: AbortSignal): Promise<Page<Saga>> {
  const query = shown === "all" ? {} : shown === "stuck" ? { stuck: "true" } : { phase: shown };
  return ask("v1/sagas", { query: { ...query, limit: MOST }, signal });
}

export function Sagas() {
  const shown = useSignal<Shown>("all");
  if (offers("get", "/v1/sagas") === false) return <NotOffered title="Sagas" what={WHAT} />;
  return (
    <>
      <Head title="Sagas" />
      <div class="tools">
        <Chips names={SHOWN} chosen={shown} />
      </div>
      <List key={shown.value} shown={shown.value} />
    </>
  );
}

function List({ shown }: { shown: Shown }) {
  const found = useFetched<[Page<Saga>, Page<Saga>]>(
    shown,
    (signal) => Promise.all([find(shown, signal), find("stuck", signal)]),
    () => void revision.value,
  );
  if (found.value === null)
    return found.error ? (
      <Broken error={found.error} again={() => void found.refresh()} />
    ) : (
      <Waiting what="the sagas" />
    );
  const [list, stuck] = found.value;
  const worrying = new Set(stuck.items.map((saga) => saga.id));
  const inOrder = [...list.items].sort((a, b) => Number(worrying.has(b.id)) - Number(worrying.has(a.id)));
  if (list.items.length === 0)
    return (
      <Notice title={shown === "stuck" ? "Nothing is stuck" : "No sagas here"}>
        <p class="muted">{WHAT}</p>
      </Notice>
    );
  return (
    <>
      {worrying.size > 0 && shown !== "stuck" && (
        <p class="wrong worry" role="status">
          {number(worrying.size)} {worrying.size === 1 ? "is" : "are"} stuck: parked, or in one phase for more than five
          minutes.
        </p>
      )}
      {inOrder.map((saga) => (
        <One key={saga.id} saga={saga} stuck={worrying.has(saga.id)} changed={() => void found.refresh()} />
      ))}
      {list.next !== null && <p class="muted small">The first {number(MOST)}.</p>}
    </>
  );
}

function One({ saga, stuck, changed }: { saga: Saga; stuck: boolean; changed: () => void }) {
  return (
    <section class="card saga" data-stuck={stuck ? "" : undefined}>
      <div class="story-line">
        <strong class="id">{saga.id}</strong>
        <span class="badge" data-kind={stuck ? "expired" : (KINDS[saga.phase] ?? "held")}>
          {saga.phase}
        </span>
        <span class="muted">{saga.name}</span>
      </div>
      <p class="muted small">
        {ENDED.includes(saga.phase) ? "ended" : "in this phase since"} {moment(saga.since)} · begun{" "}
        {moment(saga.begun_at)}
        {saga.attempt > 1 && ` · attempt ${number(saga.attempt)}`}
        {saga.failures > 0 && ` · failed ${saga.failures === 1 ? "once" : `${number(saga.failures)} times`}`}
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
      {saga.intent !== null && (
        <details>
          <summary class="muted small">What it is to do</summary>
          <pre class="json">{JSON.stringify(saga.intent, null, 2)}</pre>
        </details>
      )}
      {saga.resolved !== null && <p class="small">Ended by hand: {saga.resolved}</p>}
      {stuck && may("admin") && <Resolve saga={saga} changed={changed} />}
    </section>
  );
}

function Resolve({ saga, changed }: { saga: Saga; changed: () => void }) {
  return (
    <div class="resolve">
      <p class="small">
        {saga.phase === "parked" ? "It waits for a decision." : "Nobody has ended it yet."} Look whether it has
        happened; then say so.
      </p>
      <button type="button" class="button small" onClick={() => resolveSaga(saga, "done", changed)}>
        It has happened
      </button>
      <button type="button" class="button small danger" onClick={() => resolveSaga(saga, "cancelled", changed)}>
        Cancel it
      </button>
    </div>
  );
}
