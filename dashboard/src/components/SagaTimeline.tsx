/** What happened to a saga, from the journal; read when it is opened. */
import { useSignal } from "@preact/signals";
import { ask, segment } from "../api";
import { moment, number } from "../format";
import { revision } from "../store";
import type { SagaEventAnswer, SagaHistory } from "../types";
import { useFetched } from "../useFetched";
import { ReadState } from "./ReadState";

const KINDS: Record<string, string> = { done: "confirmed", aborted: "released", parked: "expired" };

export function SagaTimeline({ id }: { id: string }) {
  const open = useSignal(false);
  return (
    <details onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary class="muted small">Timeline</summary>
      {open.value && <Events id={id} />}
    </details>
  );
}

function Events({ id }: { id: string }) {
  const path = `v1/sagas/${segment(id)}/history`;
  const read = useFetched<SagaHistory>(
    path,
    (signal) => ask(path, { signal }),
    () => void revision.value,
  );
  return (
    <ReadState part read={read} what="the timeline">
      {({ items, more }) => (
        <>
          <ol class="timeline">
            {items.map((event, index) => (
              <li key={index} data-kind={KINDS[event.phase] ?? "held"}>
                <div class="timeline-line">
                  <span class="badge" data-kind={KINDS[event.phase] ?? "held"}>
                    {event.phase}
                  </span>
                  <time class="muted">{moment(event.at)}</time>
                </div>
                <Event event={event} />
              </li>
            ))}
          </ol>
          {more && <p class="muted small">There is more than is shown here.</p>}
        </>
      )}
    </ReadState>
  );
}

function Event({ event }: { event: SagaEventAnswer }) {
  const { actor, client_id: key } = event;
  return (
    <div class="timeline-more">
      <span>
        {[
          event.attempt > 0 && `attempt ${number(event.attempt)}`,
          event.failures > 0 && `failed ${event.failures === 1 ? "once" : `${number(event.failures)} times`}`,
        ]
          .filter(Boolean)
          .join(" · ")}
      </span>
      {event.failures > 0 && event.error !== null && (
        <span>
          <code>{event.error.kind}</code> {event.error.message}
        </span>
      )}
      {event.reason && <span class="quote">{event.reason}</span>}
      <span class="muted">
        {[actor, key && actor !== `api_client:${key}` && `with key ${key}`].filter(Boolean).join(" · ")}
      </span>
    </div>
  );
}
