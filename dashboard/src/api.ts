/** Calls of the HTTP API: the API key in a header, JSON both ways, every error as a `Problem`. Knows no view and no state. */
import { key } from "./key";
import { syncClock } from "./clock";

/** An error that the server answered, or that of the network (status 0). */
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

export interface RequestOptions {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  /** The idempotency key: the same for every attempt at one change. */
  op?: string;
  signal?: AbortSignal;
}

/** The URL of an API path, wherever the application is mounted. */
export function address(path: string, query: RequestOptions["query"] = {}): string {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url.href;
}

export function headers(): Record<string, string> {
  return key.value ? { Authorization: `Bearer ${key.value}` } : {};
}

/** Encodes one segment of a path: an id may contain a slash. */
export const segment = encodeURIComponent;

/** An id of dots alone would be resolved by the browser, and the request would be one about something else. */
const RESOLVED = /(^|\/)\.{1,2}(\/|$)/;

/** Milliseconds that a change may take. After that its outcome is unknown. */
const PATIENCE = 40_000;
/** Whether a request may change something. */
const changes = ({ method = "GET" }: RequestOptions): boolean => method !== "GET";

export async function ask<T>(path: string, options: RequestOptions = {}): Promise<T> {
  if (RESOLVED.test(path))
    throw new Problem(
      400,
      "invalid_request",
      "an id of dots alone cannot be part of a URL: every proxy would resolve it",
    );
  const sent = headers();
  if (options.op !== undefined) sent["Idempotency-Key"] = options.op;
  if (options.body !== undefined) sent["Content-Type"] = "application/json";
  const init: RequestInit = { method: options.method ?? "GET", headers: sent, cache: "no-store", credentials: "omit" };
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  const late = changes(options) ? AbortSignal.timeout(PATIENCE) : null;
  const signals = [options.signal, late].filter((one) => one instanceof AbortSignal);
  if (signals.length > 0) init.signal = AbortSignal.any(signals);
  let answer: Response;
  try {
    answer = await fetch(address(path, options.query), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const why = late?.aborted
      ? `the server has not answered within ${PATIENCE / 1_000} s`
      : "the server cannot be reached";
    throw new Problem(0, "unreachable", why, changes(options) ? "unknown" : "none");
  }
  const body = await bodyOf(answer, options);
  if (!answer.ok) throw problem(answer.status, body);
  const time = (body as { server_time?: string }).server_time;
  if (time !== undefined) syncClock(time);
  return body as T;
}

/** An answer that was cut short is none; the text of an error may be missing. */
async function bodyOf(answer: Response, options: RequestOptions): Promise<unknown> {
  try {
    const text = await answer.text();
    return text === "" ? {} : JSON.parse(text);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (!answer.ok) return {};
    throw new Problem(0, "unreachable", "the answer was cut short", changes(options) ? "unknown" : "none");
  }
}

export function problem(status: number, body: unknown): Problem {
  const said = (body ?? {}) as Record<string, unknown>;
  const reason = typeof said.reason === "string" ? said.reason : `status_${status}`;
  const detail = typeof said.detail === "string" ? said.detail : `the server answered ${status}`;
  const message = detail.startsWith(`${reason}: `) ? detail.slice(reason.length + 2) : detail;
  return new Problem(status, reason, message, said.effect === "unknown" ? "unknown" : "none", said);
}

/** An idempotency key of 128 random bits. (`randomUUID` does not exist on pages that were served without TLS.) */
export function newOperationId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `dashboard-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
