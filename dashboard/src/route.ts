/** The current view, in the fragment of the address, so that the page works wherever it is mounted. */
import { signal } from "@preact/signals";

/** What follows the question mark in an address: filters and the position of a page. */
export type Query = Record<string, string>;

export interface Route {
  view: string;
  id: string;
  query: Query;
}

/** The fragment that the route was read from. While the address has another one, the browser goes to it and has not said so yet. */
let seen = "";

export const route = signal<Route>(read());

function read(): Route {
  seen = location.hash;
  const [, path = "", asked = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(location.hash) ?? [];
  const [view = "", ...rest] = path.split("/");
  let id = rest.join("/");
  try {
    id = decodeURIComponent(id);
  } catch {
    // a stray percent sign: take the id as it is written
  }
  return { view: view || "pools", id, query: queryOf(asked) };
}

function queryOf(text: string): Query {
  return Object.fromEntries([...new URLSearchParams(text)].filter(([, value]) => value !== ""));
}

/** Views of what faces have, by the entry of the navigation that they belong to. */
export const FACE_NAV: Record<string, string> = Object.fromEntries(
  ["calendar", "budgets", "rates", "resources", "section", "account"].map((view) => [view, "faces"]),
);

export const link = (view: string, id?: string): string =>
  id === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(id)}`;

/** The address of a view with filters; empty ones are left out. */
export function linkWith(view: string, query: Query, id?: string): string {
  const asked = new URLSearchParams(Object.entries(query).filter(([, text]) => text !== ""));
  return asked.size === 0 ? link(view, id) : `${link(view, id)}?${asked.toString()}`;
}

/** Writes what is typed or chosen in a view into its address, so that it can be shared; it adds no step to the browser's history.
 * An address that the browser is on its way to is left alone. */
export function noteInAddress(view: string, query: Query, id?: string): void {
  const address = linkWith(view, query, id);
  if (location.hash !== seen || route.peek().view !== view) return;
  if (location.hash === address || (location.hash === "" && address === link(view))) return;
  history.replaceState(history.state, "", address);
  seen = location.hash;
}

export function go(view: string, id?: string): void {
  goTo(link(view, id));
}

/** The browser tells of a new address later; what is typed in the meantime would belong to the view before. */
export function goTo(address: string): void {
  location.hash = address;
  route.value = read();
}

export function startRouting(): void {
  addEventListener("hashchange", () => (route.value = read()));
  route.value = read();
}
