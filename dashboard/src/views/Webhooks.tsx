/** The webhooks of the tenant: what is sent where, what fails and why, and the delivery log. Never their secrets. */
import { useSignal } from "@preact/signals";
import { createHook, removeHook, replayHook, rotateHook, testHook } from "../acting/hooks";
import { manages } from "../acting/permits";
import { ask, segment } from "../api";
import { NeedsAdmin } from "../components/NeedsAdmin";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { milliseconds, moment, number } from "../format";
import { revision } from "../store";
import type { DeliveryPage, HookAnswer, HookPage } from "../types";
import { useFetched } from "../useFetched";

const KINDS: Record<string, string> = { active: "confirmed", failing: "expired", stopped: "released" };
const WHAT = "A webhook receives the entries of the journal as they are committed, signed, in order and at least once.";

export function Webhooks() {
  if (!manages()) return <NeedsAdmin title="Webhooks" what="webhooks" />;
  return <List />;
}

function List() {
  const hooks = useFetched<HookPage>(
    "v1/webhooks",
    (signal) => ask("v1/webhooks", { signal }),
    () => void revision.value,
  );
  const after = (): void => void hooks.refresh();
  return (
    <>
      <Head title="Webhooks">
        <button type="button" class="button" onClick={() => createHook(after)}>
          New webhook
        </button>
      </Head>
      <ReadState
        read={hooks}
        what="the webhooks"
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Notice title="No webhooks">
            <p class="muted">{WHAT}</p>
          </Notice>
        }
      >
        {(page) => (
          <>
            {page.items.map((hook) => (
              <HookCard key={hook.id} hook={hook} after={after} />
            ))}
          </>
        )}
      </ReadState>
    </>
  );
}

const BUTTONS: [string, (hook: HookAnswer, after: () => void) => void, boolean?][] = [
  ["Send test event", testHook],
  ["Replay", replayHook],
  ["Rotate secret", rotateHook],
  ["Remove", removeHook, true],
];

function HookCard({ hook, after }: { hook: HookAnswer; after: () => void }) {
  const log = useSignal(0);
  const { replay } = hook;
  const facts: [string, string | null | undefined][] = [
    ["actions", hook.actions.join(", ") || "all"],
    ["since", hook.since && moment(hook.since)],
    ["next attempt", hook.next_attempt_at && moment(hook.next_attempt_at)],
    ["parked", hook.parked > 0 ? number(hook.parked) : null],
    [
      "replay",
      replay &&
        `${replay.state}: ${number(replay.taken)} of ${number(replay.total)} accepted, ${number(replay.failed)} failed`,
    ],
    ["old secret", hook.old_secret_until && `signs too, until ${moment(hook.old_secret_until)}`],
    ["secret", hook.encrypted ? null : "stored in plain text: set the server's secret, then rotate it"],
  ];
  return (
    <section class="card managed" data-hook={hook.state}>
      <div class="timeline-line">
        <strong class="id">{hook.url}</strong>
        <span class="badge" data-kind={KINDS[hook.state]}>
          {hook.state}
        </span>
        <code class="id muted">{hook.id}</code>
      </div>
      {hook.why && <p class="wrong">{hook.why}</p>}
      <dl class="facts">
        {facts.map(([name, value]) =>
          value ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ) : null,
        )}
      </dl>
      <div class="managed-buttons">
        {BUTTONS.map(([name, open, danger]) => (
          <button
            key={name}
            type="button"
            class={danger ? "button small danger" : "button small"}
            onClick={() => open(hook, () => (after(), (log.value += 1)))}
          >
            {name}
          </button>
        ))}
      </div>
      <DeliveryLog id={hook.id} changed={log.value} />
    </section>
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
      )}
    </ReadState>
  );
}
