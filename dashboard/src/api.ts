/** Calls of the HTTP API: a key in the header, JSON both ways, every "no" as a `Problem`. Knows no view and no state. */
import { key } from "./key";
import { seeServerTime } from "./clock";

/** A "no" of the server, or of the network (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    detail: string,
    readonly effect: "none" | "unknown" = "none",
    readonly facts: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

export interface Wish {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  /** The retry key: the same for every attempt at one change. */
  op?: string;
  signal?: AbortSignal;
}

/** Where the API is, wherever the application is mounted. */
export function address(path: string, query: Wish["query"] = {}): string {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url.href;
}

export function headers(): Record<string, string> {
  return key.value ? { Authorization: `Bearer ${key.value}` } : {};
}

/** Part of a path: an id may have a slash in it. */
export const segment = encodeURIComponent;

export async function ask<T>(path: string, wish: Wish = {}): Promise<T> {
  const sent = headers();
  if (wish.op !== undefined) sent["Idempotency-Key"] = wish.op;
  if (wish.body !== undefined) sent["Content-Type"] = "application/json";
  const init: RequestInit = { method: wish.method ?? "GET", headers: sent, cache: "no-store", credentials: "omit" };
  if (wish.body !== undefined) init.body = JSON.stringify(wish.body);
  if (wish.signal) init.signal = wish.signal;
  let answer: Response;
  try {
    answer = await fetch(address(path, wish.query), init);
  } catch (error) {
    if (wish.signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "the server cannot be reached", wish.body === undefined ? "none" : "unknown");
  }
  const body: unknown = await answer.json().catch(() => ({}));
  if (!answer.ok) throw problem(answer.status, body);
  const time = (body as { server_time?: string }).server_time;
  if (time !== undefined) seeServerTime(time);
  return body as T;
}

export function problem(status: number, body: unknown): Problem {
  const said = (body ?? {}) as Record<string, unknown>;
  const reason = typeof said.reason === "string" ? said.reason : `status_${status}`;
  const detail = typeof said.detail === "string" ? said.detail : `the server answered ${status}`;
  return new Problem(status, reason, detail, said.effect === "unknown" ? "unknown" : "none", said);
}

/** A retry key: 128 random bits. (`randomUUID` is missing on pages that came without TLS.) */
export function mintOp(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
