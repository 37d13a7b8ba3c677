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
  /** Milliseconds that the answer may take. */
  patience?: number;
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
/** Milliseconds that a read may take. A browser opens six connections to a server: reads that nobody ends would keep them all. */
export const READ_PATIENCE = 15_000;
/** The reason of a problem: there was no answer in time. */
export const LATE = "late";
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
  const { answer, body } = await answered(address(path, options.query), init, options);
  if (!answer.ok) throw problem(answer.status, body);
  const time = (body as { server_time?: string }).server_time;
  if (time !== undefined) syncClock(time);
  return body as T;
}

interface Answered {
  answer: Response;
  body: unknown;
}

/** The whole answer, or a problem if there is none in time. An answer that was cut short is none; the text of an error may be missing. */
async function answered(url: string, init: RequestInit, options: RequestOptions): Promise<Answered> {
  const patience = options.patience ?? (changes(options) ? PATIENCE : READ_PATIENCE);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), patience);
  const effect = changes(options) ? "unknown" : "none";
  let answer: Response | null = null;
  try {
    const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal;
    answer = await fetch(url, { ...init, signal });
    const text = await answer.text();
    return { answer, body: text === "" ? {} : JSON.parse(text) };
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (late.signal.aborted)
      throw new Problem(0, LATE, `the server has not answered within ${patience / 1_000} s`, effect);
    if (answer === null) throw new Problem(0, "unreachable", "the server cannot be reached", effect);
    if (!answer.ok) return { answer, body: {} };
    throw new Problem(0, "unreachable", "the answer was cut short", effect);
  } finally {
    clearTimeout(timer);
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
