/** What faces have: which of them there is anything of, and how the pools behind them are named for people. */
import { ask } from "./api";
import { link } from "./route";
import { revision } from "./store";
import type { FacesAnswer } from "./types";
import { useFetched, type Reading } from "./useFetched";

export type Face =
  "claims" | "items" | "sections" | "calendars" | "budgets" | "rates" | "resources" | "accounts" | "sagas";

/** Each face: what it is called, what one thing of it is, and the view of one thing by its name. */
export const FACES: Record<Face, { title: string; about: string; view: string }> = {
  calendars: { title: "Calendars", about: "rooms by nights, or by times of day", view: "calendar" },
  budgets: { title: "Budgets", about: "estimates and actual amounts, by window and client", view: "budgets" },
  rates: { title: "Rates", about: "an amount per window, for each client", view: "rates" },
  resources: { title: "Resources", about: "capacity that an application answers, by key", view: "resources" },
  sections: { title: "Seats", about: "sections, each with a map of its seats", view: "section" },
  accounts: { title: "Accounts", about: "what each account uses of each pool", view: "account" },
  claims: { title: "Claims", about: "unique keys, each for one holder", view: "claims" },
  items: { title: "Items", about: "single things: available, held or confirmed", view: "items" },
  sagas: { title: "Sagas", about: "work in several steps", view: "sagas" },
};

/** Faces with a page of their own in the navigation. */
const OWN_PAGE: Face[] = ["claims", "items", "sagas"];

/** Where the things of a face are listed. */
export const faceLink = (face: Face): string => (OWN_PAGE.includes(face) ? link(face) : link("faces"));

export const useFaces = (): Reading<FacesAnswer> =>
  useFetched<FacesAnswer>(
    "faces",
    (signal) => ask("v1/faces", { signal }),
    () => void revision.value,
  );

export const present = (found: FacesAnswer): Face[] => (Object.keys(FACES) as Face[]).filter((face) => found[face]);

const plain = (part: string): string => {
  if (part.startsWith("#")) return `${part.slice(0, 9)}…`;
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not one that a face has written
  }
};

/** A pool's name for people: `~calendar/inn/double/2026-07-01` is "inn · double · 2026-07-01"; that of a claim is its label, the
 * key: its id is a hash. */
export function poolName(id: string, label?: string | null): string {
  if (!id.startsWith("~")) return id;
  const [face = "", ...parts] = id.slice(1).split("/");
  if (face === "item") return parts.join("/");
  if (face === "r") return resourceName(parts);
  if (face === "claim") return label ?? parts.join("/");
  if (!["calendar", "budgets", "rates"].includes(face)) return id.slice(1);
  return parts.map((part, index) => (index === parts.length - 1 ? windowName(part) : plain(part))).join(" · ");
}

/** Kind, key and window of a resource; the latter two are JSON. */
function resourceName([kind = "", ...rest]: string[]): string {
  const name = rest.join("/").replace(/\/null$/, "");
  const texts = /^"([^"\\]*)"(?:\/"([^"\\]*)")?$/.exec(name);
  return [kind, ...(texts ? texts.slice(1).filter(Boolean) : [name])].join(" · ");
}

const UNITS: [number, string][] = [
  [86_400, "days"],
  [3_600, "hours"],
  [60, "minutes"],
  [1, "seconds"],
];

/** The length of a window as people say it: `3600s` is "hour", `900s` "15 minutes"; `day` and `month` stay as they are. */
export function perName(per: string): string {
  const seconds = /^(\d+)s$/.exec(per)?.[1];
  if (seconds === undefined) return per;
  const [size, unit] = UNITS.find(([size]) => Number(seconds) % size === 0) ?? [1, "seconds"];
  const count = Number(seconds) / size;
  return count === 1 ? unit.slice(0, -1) : `${count} ${unit}`;
}

/** `day@1700000000` is "day from 2023-11-14 22:13". */
export function windowName(part: string): string {
  const [per = "", second] = part.split("@");
  if (second === undefined || !/^-?\d+$/.test(second)) return plain(part);
  const at = new Date(Number(second) * 1_000);
  return Number.isNaN(at.getTime()) ? part : `${perName(per)} from ${at.toISOString().slice(0, 16).replace("T", " ")}`;
}

/** The view that shows a pool of a face; null if there is none. */
export function poolLink(id: string): string | null {
  if (!id.startsWith("~")) return link("pool", id);
  const [face = "", name = ""] = id.slice(1).split("/");
  const views: Record<string, string> = { calendar: "calendar", budgets: "budgets", rates: "rates", r: "resources" };
  const view = views[face];
  if (view === undefined || name === "") return null;
  return link(view, face === "r" || name.startsWith("#") ? name : plain(name));
}
