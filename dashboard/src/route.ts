/** The current view, in the fragment of the address, so that the page works wherever it is mounted. */
import { signal } from "@preact/signals";

export interface Route {
  view: string;
  id: string;
}

export const route = signal<Route>(read());

function read(): Route {
  const [view = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let id = rest.join("/");
  try {
    id = decodeURIComponent(id);
  } catch {
    // a stray percent sign: take the id as it is written
  }
  return { view: view || "pools", id };
}

/** Views of what faces have, by the entry of the navigation that they belong to. */
export const FACE_NAV: Record<string, string> = Object.fromEntries(
  ["calendar", "budgets", "rates", "resources", "section", "account"].map((view) => [view, "faces"]),
);

export const link = (view: string, id?: string): string =>
  id === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(id)}`;

export function go(view: string, id?: string): void {
  location.hash = link(view, id);
}

export function startRouting(): void {
  addEventListener("hashchange", () => (route.value = read()));
  route.value = read();
}
