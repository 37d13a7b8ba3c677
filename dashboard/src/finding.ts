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

export async function findHolds(asked: Query, signal: AbortSignal): Promise<Found<HoldAnswer>> {
  const { pool, state, entity, actor, account, after, before, order = "newest" } = asked;
  const filters = { pool, state, entity, actor, account, order };
  const times = { placed_from: momentOf(asked.from), placed_to: momentOf(asked.to) };
  const back = before !== undefined;
  let items: HoldAnswer[] = [];
  let [reached, rounds]: [string | null | undefined, number] = [back ? before : after, 0];
  do {
    const place = back ? { before: reached ?? undefined } : { after: reached ?? undefined };
    const limit = PAGE + 1 - items.length; // one more than is shown: then it is known whether there is another page
    const page: HoldPage = await ask("v1/holds", { query: { ...filters, ...times, ...place, limit }, signal });
    items = back ? [...page.items, ...items] : [...items, ...page.items];
    reached = page.next;
    rounds += 1;
  } while (reached !== null && items.length <= PAGE && rounds < ROUND);
  if (items.length > PAGE) {
    items = back ? items.slice(-PAGE) : items.slice(0, PAGE);
    reached = (back ? items[0] : items.at(-1))?.id ?? null;
  }
  if (back && reached === null && items.length < PAGE) return findHolds(without(asked, "before"), signal);
  const first = items[0]?.id ?? after;
  const last = items.at(-1)?.id ?? before;
  return {
    items,
    previous: back ? position("before", reached) : after === undefined ? null : position("before", first),
    next: back ? position("after", last) : position("after", reached),
    partial: reached !== null && items.length < PAGE,
    costly: rounds > 1,
  };
}

/** Newest first. A cursor is a place between two entries, so the same one leads to the pages on both sides of it. */
export async function findEntries(asked: Query, signal: AbortSignal): Promise<Found<EntryAnswer>> {
  const { action, subject, actor, correlation_id, before, after } = asked;
  const forth = after !== undefined && before === undefined;
  const most = forth ? PAGE + 1 : PAGE; // forth: one more than is shown, so that the first page is known as such
  const filters = { action, subject, actor, correlation_id, order: forth ? "oldest" : "newest" };
  const items: EntryAnswer[] = [];
  let reached = forth ? after : before;
  let [more, rounds] = [true, 0];
  do {
    const place = forth ? { after: reached } : { before: reached };
    const query = { ...filters, ...place, limit: most - items.length };
    const page: EntryPage = await ask("v1/journal", { query, signal });
    items.push(...page.items);
    reached = page.next ?? reached;
    more = page.more;
    rounds += 1;
  } while (more && items.length < most && rounds < ROUND);
  if (items.length > PAGE) {
    items.length = PAGE;
    [more, reached] = [true, items.at(-1)?.cursor ?? reached];
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
