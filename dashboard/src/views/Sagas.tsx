/** Sagas: multi-step operations that survive crashes. Stuck ones come first. */
import { useSignal, useSignalEffect } from "@preact/signals";
import { manages } from "../acting/permits";
import { resolveSaga, retrySaga } from "../acting/sagas";
import { ask } from "../api";
import { useFetched } from "../useFetched";
import { moment, number } from "../format";
import { hasRoute } from "../features";
import { NotSupported } from "../components/SearchView";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { SagaTimeline } from "../components/SagaTimeline";
import { Head } from "../components/Shell";
import { ShowMore } from "../components/ShowMore";
import { link, noteInAddress, route } from "../route";
import { revision } from "../store";
import type { SagaAnswer, SagaPage } from "../types";
import { usePages } from "../usePages";
import { Chips } from "./Pools";

const PAGE = 100;
/** Stuck sagas that are marked. */
const MOST_STUCK = 1_000;
const WHAT =
  "A saga is a multi-step operation with its own hold. After a crash it is resumed until it is done, aborted, or parked for an operator to decide.";

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

function find(shown: Shown, after: string, limit: number, signal: AbortSignal): Promise<SagaPage> {
  const query = shown === "all" ? {} : shown === "stuck" ? { stuck: "true" } : { phase: shown };
  return ask("v1/sagas", { query: { ...query, after, limit }, signal });
}

export function Sagas() {
  const asked = route.peek().query.show;
  const shown = useSignal<Shown>(SHOWN.find(([name]) => name === asked)?.[0] ?? "all");
  useSignalEffect(() => noteInAddress("sagas", { show: shown.value === "all" ? "" : shown.value }));
  if (hasRoute("get", "/v1/sagas") === false) return <NotSupported title="Sagas" what={WHAT} />;
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
  const pages = usePages<SagaAnswer>(
    shown,
    (after, signal) => find(shown, after, PAGE, signal),
    () => void revision.value,
  );
  const stuck = useFetched<SagaPage>(
    "stuck sagas",
    (signal) => find("stuck", "", MOST_STUCK, signal),
    () => void revision.value,
  );
  const changed = (): void => void (pages.read.refresh(), stuck.refresh());
  return (
    <ReadState
      read={pages.read}
      what="sagas"
      isEmpty={(page) => page.items.length === 0}
      empty={
        <Notice title={shown === "stuck" ? "No stuck sagas" : "No sagas"}>
          <p class="muted">{WHAT}</p>
        </Notice>
      }
    >
      {(page) => (
        <>
          <Cards list={page.items} stuck={stuck.value} shown={shown} changed={changed} />
          <ShowMore pages={pages} />
        </>
      )}
    </ReadState>
  );
}

function Cards({
  list,
  stuck,
  shown,
  changed,
}: {
  list: SagaAnswer[];
  stuck: SagaPage | null;
  shown: Shown;
  changed: () => void;
}) {
  const stuckIds = new Set(stuck?.items.map((saga) => saga.id));
  const inOrder = [...list].sort((a, b) => Number(stuckIds.has(b.id)) - Number(stuckIds.has(a.id)));
  return (
    <>
      {stuckIds.size > 0 && shown !== "stuck" && (
        <p class="wrong worry" role="status">
          {stuck?.next && "More than "}
          {number(stuckIds.size)} stuck {stuckIds.size === 1 ? "saga" : "sagas"}: parked, or in the same phase for more
          than five minutes.
        </p>
      )}
      {inOrder.map((saga) => (
        <SagaCard key={saga.id} saga={saga} stuck={stuckIds.has(saga.id)} changed={changed} />
      ))}
    </>
  );
}

function SagaCard({ saga, stuck, changed }: { saga: SagaAnswer; stuck: boolean; changed: () => void }) {
  return (
    <section class="card saga" data-stuck={stuck ? "" : undefined}>
      <div class="timeline-line">
        <strong class="id">{saga.id}</strong>
        <span class="badge" data-kind={stuck ? "expired" : (KINDS[saga.phase] ?? "held")}>
          {saga.phase}
        </span>
        <span class="muted">{saga.name}</span>
      </div>
      <p class="muted small">
        {ENDED.includes(saga.phase) ? "ended" : "in this phase since"} {moment(saga.since)} · started{" "}
        {moment(saga.begun_at)}
        {saga.attempt > 1 && ` · attempt ${number(saga.attempt)}`}
        {saga.failures > 0 && ` · failed ${saga.failures === 1 ? "once" : `${number(saga.failures)} times`}`}
        {saga.hold !== null && (
          <>
            {" · "}
            <a href={link("hold", saga.hold)}>hold</a>
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
          <summary class="muted small">Intent</summary>
          <pre class="json">{JSON.stringify(saga.intent, null, 2)}</pre>
        </details>
      )}
      {hasRoute("get", "/v1/sagas/{saga}/history") !== false && <SagaTimeline id={saga.id} />}
      {saga.resolved !== null && <p class="small">Ended by an operator: {saga.resolved}</p>}
      {stuck && manages() && <Resolve saga={saga} changed={changed} />}
    </section>
  );
}

function Resolve({ saga, changed }: { saga: SagaAnswer; changed: () => void }) {
  return (
    <div class="resolve">
      <p class="small">
        {saga.phase === "parked" ? "This saga needs a decision." : "This saga has not ended."} Check whether its effect
        has taken place, then:
      </p>
      {saga.phase === "parked" && (
        <button type="button" class="button small" onClick={() => retrySaga(saga, changed)}>
          Run again
        </button>
      )}
      <button type="button" class="button small" onClick={() => resolveSaga(saga, "done", changed)}>
        Mark as completed
      </button>
      <button type="button" class="button small danger" onClick={() => resolveSaga(saga, "cancelled", changed)}>
        Cancel saga
      </button>
    </div>
  );
}
