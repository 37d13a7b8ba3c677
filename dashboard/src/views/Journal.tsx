/** The journal, live, newest first, with filters. Keeps the last few thousand entries. */
import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, Problem } from "../api";
import { serverNow } from "../clock";
import { poolName } from "../faces";
import { number } from "../format";
import { Stream, type ServerEvent } from "../live";
import { EntryRow, kindOf } from "../components/Entries";
import { Icon } from "../components/Icon";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { VirtualList } from "../components/VirtualList";
import { RingBuffer } from "../buffers";
import { link } from "../route";
import { phone } from "../screen";
import type { EntryAnswer, EntryPage } from "../types";
import { passing, type Reading } from "../useFetched";
import { Chips } from "./Pools";

const KEPT = 3_000;
const BEGIN = 300;
/** Milliseconds between two redraws. */
const PAUSE = 200;
/** Milliseconds until a journal that could not be read is read again. */
const RETRY = 2_000;

type Kind = "all" | "held" | "confirmed" | "released" | "expired" | "other";
const KINDS: [Kind, string][] = [
  ["all", "All"],
  ["held", "Held"],
  ["confirmed", "Confirmed"],
  ["released", "Released"],
  ["expired", "Expired"],
  ["other", "Other"],
];

const ring = new RingBuffer<EntryAnswer>(KEPT);
const seen = new Set<string>();
const drawn = signal(0);
/** When the list began, in milliseconds on the engine's clock, and why it could not. */
const began = signal({ at: 0, error: null as unknown });
const connection = signal<Stream | null>(null);
const paused = signal(false);
const kind = signal<Kind>("all");
const searchText = signal("");
let frozen: EntryAnswer[] = [];

const from = computed<EntryAnswer[]>(() => {
  void drawn.value;
  return paused.value ? frozen : [...ring.items];
});
const shown = computed(() => {
  const entries = from.value;
  const wanted = searchText.value.toLowerCase();
  const found: EntryAnswer[] = [];
  for (let index = entries.length - 1; index >= 0; index -= 1) {
    const entry = entries[index];
    if (entry && fits(entry, wanted)) found.push(entry);
  }
  return found;
});

/** The filter that an action belongs to. */
function groupOf(action: string): Kind {
  const its = kindOf(action);
  return action !== "command.refused" && KINDS.some(([name]) => name === its) ? (its as Kind) : "other";
}

function fits(entry: EntryAnswer, wanted: string): boolean {
  if (kind.value !== "all" && kind.value !== groupOf(entry.action)) return false;
  if (wanted === "") return true;
  const texts = [entry.action, entry.subject, entry.actor, entry.reason, entry.correlation_id, entry.op];
  return (
    texts.some((text) => text?.toLowerCase().includes(wanted)) ||
    entry.pools.some(({ pool, label }) => `${pool.id} ${poolName(pool.id, label)}`.toLowerCase().includes(wanted))
  );
}

/** After a reconnect the stream repeats entries that were already seen. Positions can be compared, but have no order. */
function add(entry: EntryAnswer): void {
  if (seen.has(entry.position)) return;
  seen.add(entry.position);
  if (seen.size > KEPT) seen.delete(seen.values().next().value as string);
  ring.push(entry);
}

/** The entries of a page follow those that are known, or nothing does: a list with a gap would pretend that nothing is missing. */
function join(page: EntryAnswer[]): void {
  if (!page.some((entry) => seen.has(entry.position))) {
    ring.items.length = 0;
    seen.clear();
  }
  page.forEach(add);
}

let due = 0;
function draw(): void {
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    requestAnimationFrame(() => (drawn.value += 1));
  }, PAUSE);
}

/** Reads the end of the journal, and follows it from there; begins again if the journal has lost that place, as after a restore. */
function follow(): () => void {
  const aborter = new AbortController();
  let [cursor, timer] = ["", 0];
  const begin = async (): Promise<void> => {
    clearTimeout(timer);
    try {
      const page: EntryPage = await ask("v1/journal", { query: { last: BEGIN }, signal: aborter.signal });
      join(page.items);
      cursor = page.cursor;
    } catch (error) {
      if (aborter.signal.aborted) return;
      began.value = { ...began.peek(), error };
      if (passing(error)) timer = setTimeout(() => void begin(), RETRY);
      return;
    }
    began.value = { at: serverNow(), error: null };
    draw();
    listen();
  };
  const listen = (): void => {
    const stream = new Stream(
      () => `v1/events${cursor ? `?after=${encodeURIComponent(cursor)}` : ""}`,
      (frame: ServerEvent) => {
        if (frame.id) cursor = frame.id;
        if (frame.event === "lost") restart();
        if (!frame.event.includes(".")) return;
        add(JSON.parse(frame.data) as EntryAnswer);
        draw();
      },
    );
    const restart = (): void => {
      stream.stop();
      void begin();
    };
    const leave = stream.status.subscribe((now) => {
      if (now.state === "refused" && now.problem.reason === "cursor_lost") restart();
    });
    aborter.signal.addEventListener("abort", () => (leave(), stream.stop()));
    connection.value = stream;
    stream.start();
  };
  void begin();
  return () => {
    aborter.abort();
    clearTimeout(timer);
  };
}

/** The list as something that is read: its own stream reports what is new. */
const journalRead = computed<Reading<number>>(() => {
  const { at, error } = began.value;
  const stream = connection.value;
  const broken = stream?.down.value ? new Problem(0, "unreachable", stream.why.value) : null;
  return {
    value: at === 0 ? null : at,
    error: error ?? broken,
    at: Math.max(at, stream?.heard.value ?? 0),
    refresh: () => Promise.resolve(stream?.retry()),
  };
});

function NoEntries() {
  return (
    <Notice title={ring.items.length > 0 ? "No matching entry" : "No entries yet"}>
      <p class="muted">
        {ring.items.length > 0
          ? "Change the search text or the filter."
          : "Every change appears here as soon as it is committed."}
      </p>
    </Notice>
  );
}

export function Journal() {
  useEffect(follow, []);
  const list = shown.value;
  const pause = (): void => {
    frozen = [...ring.items];
    paused.value = !paused.value;
  };
  return (
    <>
      <Head title="Journal">
        <a class="button" href={link("past")}>
          Past journal
        </a>
        <button type="button" class="button" aria-pressed={paused.value} onClick={pause}>
          <Icon name={paused.value ? "play" : "pause"} /> {paused.value ? "Resume" : "Pause"}
        </button>
      </Head>
      <div class="tools">
        <label class="search">
          <Icon name="search" />
          <input
            type="search"
            aria-label="Search journal"
            placeholder="Hold, pool, actor or reason"
            value={searchText.value}
            maxLength={512}
            onInput={(event) => (searchText.value = event.currentTarget.value)}
          />
          <kbd>f</kbd>
        </label>
        <Chips names={KINDS} chosen={kind} />
        <span class="muted count">
          {journalRead.value.value !== null &&
            `${list.length < from.value.length ? `${number(list.length)} of ` : ""}the last ${number(from.value.length)}`}
        </span>
      </div>
      <ReadState read={journalRead.value} what="the journal" isEmpty={() => list.length === 0} empty={<NoEntries />}>
        {() => (
          <section class="table">
            <VirtualList
              label="Journal entries, newest first"
              count={list.length}
              rowHeight={phone.value ? 76 : 40}
              keyOf={(index) => list[index]?.position ?? ""}
              row={(index) => {
                const entry = list[index];
                return entry && <EntryRow entry={entry} />;
              }}
            />
          </section>
        )}
      </ReadState>
    </>
  );
}
