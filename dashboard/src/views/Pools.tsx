/** All pools with their consumed, held and free units, live. */
import { signal, useComputed, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { createPool } from "../acting/pools";
import { ask } from "../api";
import { useFetched } from "../useFetched";
import { compact, number } from "../format";
import { phone } from "../screen";
import { complete, may, membership, pools, poolsRead, revision, sums } from "../store";
import { Bar, Figures } from "../components/Bar";
import { Icon } from "../components/Icon";
import { ErrorNotice, Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { Sparkline } from "../components/Sparkline";
import { VirtualList } from "../components/VirtualList";
import { link, noteInAddress, route } from "../route";
import { Search } from "../search";
import type { PoolAnswer, PoolPage } from "../types";
import { WhatThereIs } from "./Faces";

type Order = "name" | "fullest" | "held" | "free";
type Only = "all" | "full" | "over" | "held" | "archived";

const used = (pool: PoolAnswer): number => (pool.held + pool.consumed) / Math.max(1, pool.total);
const ORDERS: Record<Order, (a: PoolAnswer, b: PoolAnswer) => number> = {
  name: (a, b) => (a.id < b.id ? -1 : 1),
  fullest: (a, b) => used(b) - used(a) || (a.id < b.id ? -1 : 1),
  held: (a, b) => b.held - a.held || (a.id < b.id ? -1 : 1),
  free: (a, b) => b.available - a.available || (a.id < b.id ? -1 : 1),
};
const ONLY: Record<Only, (pool: PoolAnswer) => boolean> = {
  all: () => true,
  held: (pool) => pool.held > 0,
  full: (pool) => pool.available === 0,
  over: (pool) => pool.over,
  archived: (pool) => pool.archived,
};
const ORDER_NAMES: [Order, string][] = [
  ["name", "By name"],
  ["fullest", "Fullest first"],
  ["held", "Most held first"],
  ["free", "Most free first"],
];
const ONLY_NAMES: [Only, string][] = [
  ["all", "All"],
  ["held", "With holds"],
  ["full", "Full"],
  ["over", "Over"],
  ["archived", "Archived"],
];
/** Milliseconds between two sorts by a value that changes all the time. */
const SETTLE = 1_000;
/** How many pools are read to find the archived ones. */
const SCANNED = 20_000;
/** Milliseconds after the last keystroke before a search is sent. */
const TYPING = 250;

// Kept while the user opens a pool and comes back.
const kept = { searchText: "", order: "name" as Order, only: "all" as Only };

/** What the address says, if it says anything; else what was chosen when the list was left. */
function begin(): void {
  const { q, only, order } = route.peek().query;
  if (q === undefined && only === undefined && order === undefined) return;
  const chosen = <T extends string>(names: [T, string][], text: string | undefined, otherwise: T): T =>
    names.find(([name]) => name === text)?.[0] ?? otherwise;
  kept.searchText = q ?? "";
  kept.only = chosen(ONLY_NAMES, only, "all");
  kept.order = chosen(ORDER_NAMES, order, "name");
}

export function Pools() {
  useMemo(begin, []);
  const searchText = useSignal(kept.searchText);
  const order = useSignal<Order>(kept.order);
  const only = useSignal<Only>(kept.only);
  const settled = useSignal(0);
  useSignalEffect(() => {
    Object.assign(kept, { searchText: searchText.value, order: order.value, only: only.value });
    noteInAddress("pools", {
      q: searchText.value,
      only: only.value === "all" ? "" : only.value,
      order: order.value === "name" ? "" : order.value,
    });
  });
  useSignalEffect(() => {
    void revision.value;
    if (Date.now() - settled.peek() > SETTLE) settled.value = Date.now();
  });
  const shown = useComputed(() => {
    void membership.value;
    const moving = order.value !== "name" || only.value !== "all";
    if (moving) void settled.value;
    const wanted = searchText.value.toLowerCase();
    const fits = ONLY[only.value];
    const found: Signal<PoolAnswer>[] = [];
    for (const pool of pools.values())
      if (fits(pool.peek()) && (wanted === "" || pool.peek().id.toLowerCase().includes(wanted))) found.push(pool);
    const compare = ORDERS[order.value];
    return found.sort((a, b) => compare(a.peek(), b.peek()));
  });
  const list = shown.value;
  const archived = only.value === "archived";
  const everywhere = !archived && !complete.value && searchText.value !== "";
  return (
    <>
      <Head title="Pools">
        {may("admin") && (
          <button type="button" class="button" onClick={createPool}>
            New pool
          </button>
        )}
      </Head>
      <Totals />
      <div class="tools">
        <label class="search">
          <Icon name="search" />
          <input
            type="search"
            aria-label="Search pools"
            placeholder="Search pools"
            value={searchText.value}
            maxLength={512}
            onInput={(event) => (searchText.value = event.currentTarget.value)}
          />
          <kbd>f</kbd>
        </label>
        <Chips names={ONLY_NAMES} chosen={only} />
        <label class="select">
          <span class="unseen">Order</span>
          <select value={order.value} onChange={(event) => (order.value = event.currentTarget.value as Order)}>
            {ORDER_NAMES.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {!everywhere && !archived && poolsRead.value.value !== null && (
          <span class="muted count" role="status" aria-live={only.value === "all" ? "polite" : "off"}>
            {number(list.length)} {list.length === 1 ? "pool" : "pools"}
          </span>
        )}
      </div>
      {archived ? (
        <Archived searchText={searchText.value} order={order.value} />
      ) : everywhere ? (
        <ServerSearch searchText={searchText.value} />
      ) : (
        <>
          {!complete.value && (
            <p class="muted small">
              Too many pools to show all of them. The list, its totals and its filters cover the first{" "}
              {number(pools.size)} by name; the search covers all pools.
            </p>
          )}
          <ReadState
            read={poolsRead.value}
            what="pools"
            isEmpty={() => list.length === 0}
            empty={<EmptyState filtered={searchText.value !== "" || only.value !== "all"} />}
          >
            {() => <Table list={list} />}
          </ReadState>
        </>
      )}
    </>
  );
}

function Table({ list, outdated = false }: { list: Signal<PoolAnswer>[]; outdated?: boolean }) {
  return (
    <section class="table pools">
      <div class="table-head row pool-row" aria-hidden="true">
        <span>pool</span>
        <span />
        <span class="figure">consumed</span>
        <span class="figure">held</span>
        <span class="figure">free</span>
        <span class="figure">total</span>
      </div>
      <VirtualList
        label="Pools"
        count={list.length}
        outdated={outdated}
        rowHeight={phone.value ? 64 : 44}
        keyOf={(index) => list[index]?.peek().id ?? ""}
        row={(index) => {
          const pool = list[index];
          return pool && <PoolRow pool={pool} />;
        }}
      />
    </section>
  );
}

/** Archived pools are not in the list or the totals, so they are requested separately. */
function Archived({ searchText, order }: { searchText: string; order: Order }) {
  const read = useFetched<PoolPage>("archived", readArchived, () => void membership.value);
  const wanted = searchText.toLowerCase();
  const list = (read.value?.items ?? [])
    .filter((pool) => pool.id.toLowerCase().includes(wanted))
    .sort(ORDERS[order])
    .map((pool) => signal(pool));
  return (
    <ReadState read={read} what="archived pools" isEmpty={() => list.length === 0} empty={<EmptyState filtered />}>
      {(page) => (
        <>
          <p class="muted small">
            {number(list.length)} archived{page.next !== null && `, among the first ${number(SCANNED)} pools by name`}.
            Archived pools grant no new holds, and are not part of the totals.
          </p>
          <Table list={list} />
        </>
      )}
    </ReadState>
  );
}

async function readArchived(signal: AbortSignal): Promise<PoolPage> {
  const items: PoolAnswer[] = [];
  let [after, seen] = ["", 0];
  for (;;) {
    const query = { archived: "true", after, limit: 1_000 };
    const page: PoolPage = await ask("v1/pools", { query, signal });
    items.push(...page.items.filter((pool) => pool.archived));
    seen += page.items.length;
    if (page.next === null || seen >= SCANNED) return { ...page, items };
    after = page.next;
  }
}

/** A search on the server, without filters, for when there are too many pools to load all of them. */
function ServerSearch({ searchText }: { searchText: string }) {
  const [settled, settle] = useState(searchText);
  useEffect(() => {
    const timer = setTimeout(() => settle(searchText), TYPING);
    return () => clearTimeout(timer);
  }, [searchText]);
  const search = useMemo(() => new Search(settled), [settled]);
  useEffect(() => {
    void search.go();
    return () => search.stop();
  }, [search]);
  const list = search.found.value;
  const state = searchText === settled ? search.state.value : "searching";
  const count = list.length === 0 ? "None" : `${number(list.length)} ${list.length === 1 ? "pool" : "pools"}`;
  if (state === "failed") return <ErrorNotice error={search.error} retry={() => void search.go()} />;
  return (
    <>
      <p class="muted small found">
        <span role="status">
          {state === "searching"
            ? "Searching all pools…"
            : state === "done"
              ? `${count} in total; names that begin with the text come first.`
              : `${count} so far; names that begin with the text come first. There are more pools to search.`}
        </span>
        {state === "paused" && (
          <button type="button" class="button small" onClick={() => void search.go()}>
            Search more
          </button>
        )}
      </p>
      {list.length > 0 ? (
        <Table list={list} outdated={searchText !== settled} />
      ) : (
        state === "done" && <EmptyState filtered />
      )}
    </>
  );
}

function PoolRow({ pool }: { pool: Signal<PoolAnswer> }) {
  const now = pool.value;
  return (
    <a class="row pool-row" href={link("pool", now.id)} tabIndex={-1}>
      <span class="id">{now.id}</span>
      <span class="bar-cell">
        <Bar pool={now} />
        <Sparkline id={now.id} />
      </span>
      <Figures pool={now} />
    </a>
  );
}

function Totals() {
  const all = sums.value;
  const tiles: [string, number | undefined, string][] = [
    ["pools", all?.pools, ""],
    ["consumed", all?.consumed, "figure-consumed"],
    ["held", all?.held, "figure-held"],
    ["free", all?.available, ""],
    ["full", all?.full, all?.full ? "figure-full" : ""],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([name, value, kind]) => (
        <div class="tile" key={name}>
          <dt>{name}</dt>
          <dd class={kind} data-sum={name}>
            {value === undefined ? "–" : compact(value)}
            {name === "pools" && !complete.value && "+"}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Chips<T extends string>({ names, chosen }: { names: [T, string][]; chosen: Signal<T> }) {
  return (
    <div class="chips" role="group" aria-label="Show">
      {names.map(([value, name]) => (
        <button
          key={value}
          type="button"
          class="chip"
          aria-pressed={chosen.value === value}
          onClick={() => (chosen.value = value)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

function EmptyState({ filtered }: { filtered: boolean }) {
  if (filtered)
    return (
      <Notice title="No matching pool">
        <p>Change the search text or the filter.</p>
      </Notice>
    );
  return (
    <Notice title="No counted pools yet">
      <p>
        A counted pool is a limited quantity of something: seats, stock, time slots, money. What claims, items,
        calendars and budgets keep is not listed here.
      </p>
      <WhatThereIs />
      <p>Create the first counted pool here, or over HTTP:</p>
      <pre class="command">
        {`curl -X POST ${new URL("v1/pools", document.baseURI).href} \\\n  -H "Authorization: Bearer $HOLDKIT_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '{"id": "show:42", "total": 500}'`}
      </pre>
      {may("admin") && (
        <button type="button" class="button primary" onClick={createPool}>
          New pool
        </button>
      )}
    </Notice>
  );
}
