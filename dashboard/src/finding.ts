/**
 * Pages of holds and of journal entries that fit a filter, from a position on in either direction. One request looks at a
 * bounded number of rows, so a page takes several of them where few rows fit. A page that is not full even then is `partial`,
 * and the next one goes on from where its search has ended.
 */
import { ask, Problem } from "./api";
import { serverNow } from "./clock";
import type { Query } from "./route";
import type { EntryAnswer, EntryPage, HoldAnswer, HoldPage } from "./types";

/** Rows on a page. */
export const PAGE = 100;
/** Entries that are asked for: what the servers note about themselves is among them, and not shown. */
const ASKED = 2 * PAGE;
/** Requests for one page; the server looks at 20,000 rows for each. */
const ROUND = 5;

export interface Found<T> {
  items: T[];
  /** The position of the page before this one, as part of an address; null if there is none. */
  previous: Query | null;
  next: Query | null;
  /** The search ended before the page was full: there may be more. */
  partial: boolean;
  /** More than one request was needed. */
  costly: boolean;
}

/**
 * A place in the list of holds. The server lists holds by id. Generated ids begin with the time of placing; those that an
 * application chose, as sagas do, carry none, and nearly all of them are larger. So newest first has two parts: the ids with
 * a time, then the others; otherwise a month of old sagas would stand in front of the hold that was placed now.
 */
interface Place {
  timeless: boolean;
  /** The server's position; null: where the part begins. */
  at: string | null;
}

const FIRST_ID = "0".repeat(32);
const TIMELESS = "~";

/** No id with a time is as large as this one. */
const bound = (): string => (Math.floor(serverNow() / 2 ** 40) + 1).toString(16).padStart(2, "0").padEnd(32, "0");
const placeOf = (text: string): Place =>
  text.startsWith(TIMELESS) ? { timeless: true, at: text.slice(1) || null } : { timeless: false, at: text };
const textOf = ({ timeless, at }: Place): string => `${timeless ? TIMELESS : ""}${at ?? ""}`;

interface Step {
  items: HoldAnswer[];
  next: Place | null;
}

/** The rows that follow a place in one direction, as far as one request finds them. */
async function stepOf({ timeless, at }: Place, back: boolean, query: Filters, signal: AbortSignal): Promise<Step> {
  const begin = at ?? (timeless || query.order === "oldest" ? undefined : back ? FIRST_ID : bound());
  const page: HoldPage = await ask("v1/holds", {
    query: { ...query, ...(back ? { before: begin } : { after: begin }) },
    signal,
  });
  if (query.order === "oldest")
    return { items: page.items, next: page.next === null ? null : { timeless, at: page.next } };
  const items = page.items.filter(({ id }) => id >= bound() === timeless);
  if (page.next !== null && items.length === page.items.length) return { items, next: { timeless, at: page.next } };
  return { items, next: timeless === back ? { timeless: !timeless, at: null } : null };
}

type Filters = Record<string, string | number | undefined>;

export async function findHolds(asked: Query, signal: AbortSignal): Promise<Found<HoldAnswer>> {
  const { pool, state, entity, actor, account, after, before, order = "newest" } = asked;
  const times = { placed_from: momentOf(asked.from), placed_to: momentOf(asked.to) };
  const query = { pool, state, entity, actor, account, order, ...times, limit: PAGE + 1 }; // one more: is there another page?
  const back = before !== undefined;
  let items: HoldAnswer[] = [];
  let [reached, rounds]: [Place | null, number] = [placeOf(before ?? after ?? ""), 0];
  if (reached.at === "") reached = { timeless: false, at: null };
  do {
    const part: boolean = reached.timeless;
    const step: Step = await stepOf(reached, back, query, signal);
    items = back ? [...step.items, ...items] : [...items, ...step.items];
    reached = step.next;
    if (reached?.timeless === part) rounds += 1;
  } while (reached !== null && items.length <= PAGE && rounds < ROUND);
  const place = ({ id }: HoldAnswer): Place => ({ timeless: order === "newest" && id >= bound(), at: id });
  if (items.length > PAGE) {
    items = back ? items.slice(-PAGE) : items.slice(0, PAGE);
    const edge = back ? items[0] : items.at(-1);
    reached = edge ? place(edge) : null;
  }
  if (back && reached === null && items.length < PAGE) return findHolds(without(asked, "before"), signal);
  const [first, last] = [items[0], items.at(-1)];
  const further = reached && textOf(reached);
  return {
    items,
    previous: back
      ? position("before", further)
      : after === undefined
        ? null
        : position("before", first ? textOf(place(first)) : after),
    next: back ? position("after", last ? textOf(place(last)) : before) : position("after", further),
    partial: reached !== null && items.length < PAGE,
    costly: rounds > 1,
  };
}

/** Newest first. A cursor is a place between two entries, so the same one leads to the pages on both sides of it. */
export async function findEntries(asked: Query, signal: AbortSignal): Promise<Found<EntryAnswer>> {
  const { action, subject, actor, correlation_id, before, after } = asked;
  const forth = after !== undefined && before === undefined;
  const filters = { action, subject, actor, correlation_id, order: forth ? "oldest" : "newest" };
  const items: EntryAnswer[] = [];
  let reached = forth ? after : before;
  let [more, rounds] = [true, 0];
  do {
    const place = forth ? { after: reached } : { before: reached };
    const query = { ...filters, ...place, limit: ASKED };
    const page: EntryPage = await ask("v1/journal", { query, signal });
    items.push(...page.items);
    reached = page.cursor;
    more = page.next !== null;
    rounds += 1;
  } while (more && items.length <= PAGE && rounds < ROUND);
  if (items.length > PAGE) {
    // the place between the last entry that is shown and the next one: a cursor is behind its entry, in the order of time
    const place = items[forth ? PAGE - 1 : PAGE]?.cursor;
    items.length = PAGE;
    [more, reached] = [true, place ?? reached];
  }
  if (forth && !more && items.length < PAGE) return findEntries(without(asked, "after"), signal);
  const further = more ? reached : null;
  return {
    items: forth ? items.reverse() : items,
    previous: forth ? position("after", further) : position("after", before),
    next: forth ? position("before", after) : position("before", further),
    partial: more && items.length < PAGE,
    costly: rounds > 1,
  };
}

const position = (name: "after" | "before", place: string | null | undefined): Query | null =>
  place ? { [name]: place } : null;

const without = (asked: Query, name: string): Query =>
  Object.fromEntries(Object.entries(asked).filter(([other]) => other !== name));

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** A moment as people write it: an age (2h, 7d) by the engine's clock, or a date, with or without a time. */
function momentOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const written = text.trim();
  const age = /^(\d{1,9})\s*([smhdw])$/i.exec(written);
  if (age) {
    const span = Number(age[1]) * (UNITS[age[2]?.toLowerCase() ?? ""] ?? 0);
    return new Date(Math.max(0, serverNow() - span)).toISOString();
  }
  const date = /^\d{4}-\d\d-\d\d(.*)$/.exec(written);
  const at = date ? Date.parse(date[1] === "" ? `${written}T00:00` : written.replace(" ", "T")) : NaN;
  if (Number.isNaN(at))
    throw new Problem(
      400,
      "invalid_request",
      `"${written}" is not a time: write an age such as 2h or 7d, or a date such as 2026-05-01 or 2026-05-01T12:30`,
    );
  return new Date(at).toISOString();
}
