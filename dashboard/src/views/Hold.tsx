/** One hold: its pools, deadline and metadata, and its history. */
import { useComputed, useSignal } from "@preact/signals";
import { readsAllPools } from "../acting/permits";
import { ask, segment } from "../api";
import { now } from "../clock";
import { useFetched } from "../useFetched";
import { poolLink, poolName } from "../faces";
import { compact, moment, number } from "../format";
import { HoldActions } from "../components/ActionButtons";
import { Countdown, isLive, lifeLeft, State } from "../components/Countdown";
import { Timeline } from "../components/Entries";
import { Facts, type Fact } from "../components/ManagedList";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { membership, pools, revision } from "../store";
import { link, linkWith } from "../route";
import type { EntryPage, HoldAnswer } from "../types";

export function HoldView({ id }: { id: string }) {
  const path = `v1/holds/${segment(id)}`;
  const known = useSignal<HoldAnswer | null>(null);
  const due = useComputed(() => {
    const deadline = known.value && isLive(known.value) ? known.value.deadline : null;
    return deadline !== null && Date.parse(deadline) <= now.value;
  });
  const found = useFetched<[HoldAnswer, EntryPage]>(
    path,
    async (signal) => {
      known.value = await ask<HoldAnswer>(path, { signal });
      return [known.value, await ask<EntryPage>(`${path}/history`, { query: { limit: 1000 }, signal })];
    },
    () => {
      // a hold changes only together with its pools, or when its deadline passes; pools of faces are not reported one by one
      for (const leg of known.value?.legs ?? []) void (pools.get(leg.pool)?.value ?? revision.value);
      void [membership.value, due.value];
    },
  );
  const hold = found.value?.[0] ?? null;
  const retry = (): void => void found.refresh();
  return (
    <>
      <Head over="Hold" title={<span class="id">{hold?.id ?? id}</span>}>
        {hold !== null && <HoldActions hold={hold} after={retry} />}
      </Head>
      <ReadState read={found} what="the hold">
        {([hold, history]) => (
          <>
            <LifetimeCard hold={hold} />
            <div class="columns">
              <div>
                <LegsCard hold={hold} />
                <Details hold={hold} />
              </div>
              <section class="card">
                <h2>History</h2>
                {history.next !== null && <NotAll id={hold.id} count={history.items.length} />}
                <Timeline entries={history.items} />
              </section>
            </div>
          </>
        )}
      </ReadState>
    </>
  );
}

/** A lease that is renewed for hours has more entries than are read here, and the last of them matter. */
function NotAll({ id, count }: { id: string; count: number }) {
  return (
    <p class="wrong small" data-not-all>
      Only the first {number(count)} entries.
      {readsAllPools() && (
        <>
          {" "}
          The <a href={linkWith("past", { subject: id })}>past journal</a> has the newest.
        </>
      )}
    </p>
  );
}

function LifetimeCard({ hold }: { hold: HoldAnswer }) {
  const left = lifeLeft(hold, now.value);
  return (
    <section class="card life-card" data-state={hold.state}>
      <State state={hold.state} />
      <span class="life-time">
        <Countdown hold={hold} />
      </span>
      {left !== null && (
        <span class="life wide">
          <i style={{ width: `${left * 100}%` }} />
        </span>
      )}
      {hold.deadline !== null && isLive(hold) && <span class="muted">until {moment(hold.deadline)}</span>}
    </section>
  );
}

function LegsCard({ hold }: { hold: HoldAnswer }) {
  return (
    <section class="card">
      <h2>{hold.legs.length === 1 ? "Pool" : `${hold.legs.length} pools, held together`}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Pools of the hold">
        <table class="plain legs">
          <thead>
            <tr>
              <th scope="col">pool</th>
              <th scope="col" class="figure">
                quantity
              </th>
              <th scope="col" class="figure">
                held
              </th>
              <th scope="col" class="figure">
                confirmed
              </th>
              <th scope="col" class="figure">
                returned
              </th>
            </tr>
          </thead>
          <tbody>
            {hold.legs.slice(0, 200).map((leg) => (
              <tr key={leg.pool}>
                <td>
                  <PoolName id={leg.pool} label={leg.name} />
                </td>
                <td class="figure">{compact(leg.quantity)}</td>
                <td class="figure figure-held">{compact(leg.held)}</td>
                <td class="figure figure-consumed">{compact(leg.confirmed)}</td>
                <td class="figure">{compact(leg.returned)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hold.legs.length > 200 && <p class="muted">and {number(hold.legs.length - 200)} more</p>}
    </section>
  );
}

/** Pools that begin with ~ belong to faces: they are named, and linked to, as their face knows them. */
function PoolName({ id, label }: { id: string; label: string | null | undefined }) {
  const target = poolLink(id);
  const name = <bdi>{poolName(id, label)}</bdi>;
  if (target === null) return <span class="id">{name}</span>;
  return (
    <a class="id" href={target}>
      {name}
    </a>
  );
}

function Details({ hold }: { hold: HoldAnswer }) {
  const facts: Fact[] = [
    ["joined at", hold.joined_at ? moment(hold.joined_at) : null],
    ["number in line", hold.number ? number(hold.number) : null],
    ["held at", hold.held_at && moment(hold.held_at)],
    ["deadline", hold.deadline && moment(hold.deadline)],
    ["ended at", hold.ended_at && moment(hold.ended_at)],
    ["entity", hold.entity],
    ["account", hold.account ? <a href={link("account", hold.account)}>{hold.account}</a> : null],
    ["actor", hold.actor],
    ["reason", hold.reason],
    ["correlation", hold.correlation_id],
    ["fence", number(hold.fence)],
  ];
  return (
    <section class="card">
      <h2>Details</h2>
      <Facts facts={facts} />
      {Object.keys(hold.metadata).length > 0 && (
        <>
          <h3>Metadata</h3>
          <pre class="json" tabIndex={0}>
            {JSON.stringify(hold.metadata, null, 2)}
          </pre>
        </>
      )}
    </section>
  );
}
