/** The webhooks of the tenant: what is sent where, what fails and why, and the delivery log. Never their secrets. */
import { useSignal } from "@preact/signals";
import { createHook, removeHook, replayHook, rotateHook, testHook } from "../acting/hooks";
import { ask, segment } from "../api";
import { ManagedCard, ManagedList } from "../components/ManagedList";
import { ReadState } from "../components/ReadState";
import { milliseconds, moment, number } from "../format";
import { revision } from "../store";
import type { DeliveryPage, HookAnswer } from "../types";
import { useFetched } from "../useFetched";

const KINDS: Record<string, string> = { active: "confirmed", failing: "expired", stopped: "released" };
const WHAT = "A webhook receives the entries of the journal as they are committed, signed, in order and at least once.";

export function Webhooks() {
  return (
    <ManagedList<HookAnswer>
      title="Webhooks"
      what="webhooks"
      path="v1/webhooks"
      create={{ name: "New webhook", open: createHook }}
      empty={{ title: "No webhooks", about: WHAT }}
      card={(hook, after) => <HookCard key={hook.id} hook={hook} after={after} />}
    />
  );
}

function HookCard({ hook, after }: { hook: HookAnswer; after: () => void }) {
  const log = useSignal(0);
  const changed = (): void => (after(), void (log.value += 1));
  const { replay } = hook;
  const told =
    replay &&
    `${replay.state}: ${number(replay.taken)} of ${number(replay.total)} accepted, ${number(replay.failed)} failed`;
  return (
    <ManagedCard
      mark={{ "data-hook": hook.state }}
      name={<strong class="id">{hook.url}</strong>}
      state={hook.state}
      kind={KINDS[hook.state]}
      more={<code class="id muted">{hook.id}</code>}
      wrong={hook.why}
      facts={[
        ["actions", hook.actions.join(", ") || "all"],
        [hook.state === "active" ? "since" : `${hook.state} since`, hook.since && moment(hook.since)],
        ["next attempt", hook.next_attempt_at && moment(hook.next_attempt_at)],
        ["parked", hook.parked > 0 ? number(hook.parked) : null],
        ["replay", told],
        ["old secret", hook.old_secret_until && `signs too, until ${moment(hook.old_secret_until)}`],
        ["secret", hook.encrypted ? null : "stored in plain text: set the server's secret, then rotate it"],
      ]}
      buttons={[
        { name: "Send test event", click: () => testHook(hook, changed) },
        { name: "Replay", click: () => replayHook(hook, changed) },
        { name: "Rotate secret", click: () => rotateHook(hook, changed) },
        { name: "Remove", danger: true, click: () => removeHook(hook, changed) },
      ]}
    >
      <DeliveryLog id={hook.id} changed={log.value} />
    </ManagedCard>
  );
}

function DeliveryLog({ id, changed }: { id: string; changed: number }) {
  const open = useSignal(false);
  return (
    <details onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary class="muted small">Delivery log</summary>
      {open.value && <Deliveries key={changed} id={id} />}
    </details>
  );
}

function Deliveries({ id }: { id: string }) {
  const path = `v1/webhooks/${segment(id)}/deliveries`;
  const read = useFetched<DeliveryPage>(
    path,
    (signal) => ask(path, { signal }),
    () => void revision.value,
  );
  return (
    <ReadState
      part
      read={read}
      what="the delivery log"
      isEmpty={(page) => page.items.length === 0}
      empty={<p class="muted small">Nothing has been sent yet.</p>}
    >
      {(page) => (
        <div class="scroll" tabIndex={0} role="region" aria-label="Delivery log">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">at</th>
                <th scope="col">attempt</th>
                <th scope="col">outcome</th>
                <th scope="col" class="figure">
                  took
                </th>
              </tr>
            </thead>
            <tbody>
              {page.items.map((one, index) => (
                <tr key={index}>
                  <td>{moment(one.at)}</td>
                  <td>{one.kind}</td>
                  <td>
                    <code>{one.outcome}</code> {one.status ?? ""} <span class="muted">{one.why ?? ""}</span>
                  </td>
                  <td class="figure">{milliseconds(one.seconds)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </ReadState>
  );
}
