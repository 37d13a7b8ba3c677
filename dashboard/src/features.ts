/** The routes of this server, from its OpenAPI document: a view whose routes are missing says so instead of failing. */
import { signal } from "@preact/signals";
import { ask } from "./api";

type Paths = Record<string, Record<string, unknown>>;

const paths = signal<Paths | null>(null);

export async function readRoutes(): Promise<void> {
  if (paths.peek()) return;
  try {
    paths.value = (await ask<{ paths: Paths }>("v1/openapi.json")).paths;
  } catch {
    // it may be hidden behind a proxy: views then just try
  }
}

/** Whether the server has this route; null while that is unknown. */
export const hasRoute = (method: "get" | "post", path: string): boolean | null =>
  paths.value === null ? null : paths.value[path]?.[method] !== undefined;
