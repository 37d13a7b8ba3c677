/** What this server offers, by its own description: views whose routes are missing say so, instead of failing. */
import { signal } from "@preact/signals";
import { ask } from "./api";

type Paths = Record<string, Record<string, unknown>>;

const paths = signal<Paths | null>(null);

export async function readOffers(): Promise<void> {
  if (paths.peek()) return;
  try {
    paths.value = (await ask<{ paths: Paths }>("v1/openapi.json")).paths;
  } catch {
    // a mount may hide it: then views simply try
  }
}

/** Whether there is such a route; null while that is not known. */
export const offers = (method: "get" | "post", path: string): boolean | null =>
  paths.value === null ? null : paths.value[path]?.[method] !== undefined;
