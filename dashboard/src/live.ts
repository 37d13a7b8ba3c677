/**
 * Server-sent events over `fetch`, because an EventSource cannot send a header. Reconnects by itself, with growing pauses.
 * Stores no event.
 *
 * A browser opens six connections to a server, for all tabs together, and a stream keeps one: a tab that nobody looks at gives
 * its own back after a while. Otherwise the seventh tab would load nothing.
 */
import { signal } from "@preact/signals";
import { address, headers, problem, type Problem } from "./api";
import { serverNow } from "./clock";

export interface ServerEvent {
  event: string;
  id: string | null;
  data: string;
}

/** Parses a stream of text into events, however it is split into chunks. */
export class EventParser {
  private rest = "";
  private event = "message";
  private id: string | null = null;
  private data: string[] = [];

  take(text: string): ServerEvent[] {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    const found: ServerEvent[] = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.data.length > 0) found.push({ event: this.event, id: this.id, data: this.data.join("\n") });
        this.event = "message";
        this.id = null;
        this.data = [];
      } else if (line.startsWith("data:")) this.data.push(line.slice(5).trimStart());
      else if (line.startsWith("event:")) this.event = line.slice(6).trim();
      else if (line.startsWith("id:")) this.id = line.slice(3).trim();
    }
    return found;
  }
}

export type ConnectionStatus =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "waiting"; until: number; attempt: number }
  | { state: "refused"; problem: Problem };

const SHORTEST = 500;
const LONGEST = 10_000;
/** Milliseconds for which a hidden tab keeps its connection. */
const HIDDEN = 10_000;
/** Milliseconds between two looks at how long the server has been silent. */
const LOOK = 500;
/** Milliseconds that the first answer may take when somebody looks again at a tab that has given its connection back. */
const GRACE = 1_000;
const AWAY = "the server cannot be reached";

/** Milliseconds after which the server gives a sign of life, at the latest. Each stream says so when it begins. */
let pingEvery = 15_000;
/** Milliseconds after which a server that has sent nothing is away. */
const silence = (): number => 2 * pingEvery;

const quiet = (): string => `the server has sent nothing for ${Math.round(silence() / 100) / 10} s`;

/** A moment by two clocks: one of them stands still while the machine sleeps, the other one can be set back. */
interface Moment {
  date: number;
  steady: number;
}
const moment = (): Moment => ({ date: Date.now(), steady: performance.now() });
/** Milliseconds since a moment, by the clock that says more. */
const since = ({ date, steady }: Moment): number => Math.max(Date.now() - date, performance.now() - steady);

export class Stream {
  readonly status = signal<ConnectionStatus>({ state: "connecting" });
  /** The connection is refused, broke and did not come back at once, or nothing was received for two intervals of the server's ping:
   * nobody reports changes any more, until something is received. An attempt to connect, which may hang, does not end this. */
  readonly down = signal(false);
  /** The last sign of life, in milliseconds on the engine's clock: what this stream reports was current then. */
  readonly heard = signal(0);
  /** Why nobody reports changes, if it is `down`. */
  readonly why = signal(AWAY);
  private attempt = 0;
  private stopped = false;
  private aborter = new AbortController();
  private wake: () => void = () => undefined;
  private resting = false;
  private hiding = 0;
  private watch = 0;
  /** When something was received last, and when the present attempt began or was answered. */
  private received = moment();
  private answered = moment();
  /** When somebody began to look at this tab. */
  private seen = moment();
  /** The present connection was given up because the server was silent. */
  private silent = false;

  /** `forbidden` takes over if the API key may not read this stream. */
  constructor(
    private readonly path: () => string,
    private readonly take: (frame: ServerEvent) => void,
    private readonly forbidden: (() => void) | null = null,
  ) {}

  start(): void {
    this.received = this.seen = moment();
    this.watch = setInterval(this.listen, LOOK);
    addEventListener("online", this.retry);
    document.addEventListener("visibilitychange", this.look);
    this.look(); // a tab may be opened behind others
    void this.run();
  }

  stop(): void {
    this.stopped = true;
    removeEventListener("online", this.retry);
    document.removeEventListener("visibilitychange", this.look);
    clearTimeout(this.hiding);
    clearInterval(this.watch);
    this.aborter.abort();
    this.wake();
  }

  /** Notice that the server is silent, whatever the connection looks like: a server that is stopped keeps it open. */
  private readonly listen = (): void => {
    if (this.resting) return;
    if (!this.down.peek() && since(this.received) > silence() && since(this.seen) > GRACE) {
      this.why.value = quiet();
      this.down.value = true;
    }
    if (since(this.answered) > silence()) {
      this.silent = true;
      this.aborter.abort();
    }
  };

  private readonly look = (): void => {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(this.rest, HIDDEN);
    else if (this.resting) {
      this.resting = false;
      this.wake();
    }
  };

  private readonly rest = (): void => {
    this.resting = true;
    this.aborter.abort();
    this.wake();
  };

  /** End the present pause. */
  readonly retry = (): void => this.wake();

  private async run(): Promise<void> {
    while (!this.stopped) {
      if (this.resting) await this.rested();
      if (this.status.peek().state !== "live") this.status.value = { state: "connecting" };
      const refused = await this.once().catch(() => null);
      if (this.stopped) return;
      if (this.resting) continue;
      this.why.value = refused?.message ?? (this.silent ? quiet() : AWAY);
      if (refused && refused.status < 500 && refused.status !== 429) {
        clearInterval(this.watch);
        this.status.value = { state: "refused", problem: refused };
        if (refused.status === 403 && this.forbidden) this.forbidden();
        else this.down.value = true;
        return;
      }
      await this.pause();
    }
  }

  /** Until somebody looks. What is shown then is old: if the first attempt fails, it is out of date. */
  private async rested(): Promise<void> {
    this.status.value = { state: "connecting" };
    while (this.resting && !this.stopped)
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    this.attempt = 1;
    this.seen = moment();
  }

  /** One connection, until it breaks; returns a problem if the server refused it. */
  private async once(): Promise<Problem | null> {
    this.aborter = new AbortController();
    this.silent = false;
    this.answered = moment();
    try {
      const answer = await fetch(address(this.path()), {
        headers: { ...headers(), Accept: "text/event-stream" },
        cache: "no-store",
        credentials: "omit",
        signal: this.aborter.signal,
      });
      if (!answer.ok || answer.body === null) return problem(answer.status, await answer.json().catch(() => ({})));
      pingEvery = Number(answer.headers.get("Holdkit-Ping-Every")) * 1_000 || pingEvery;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const frames = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return null;
        this.received = this.answered = moment();
        this.heard.value = serverNow();
        for (const frame of frames.take(value)) {
          this.attempt = 0;
          if (this.status.peek().state !== "live") this.status.value = { state: "live" };
          this.down.value = false;
          this.take(frame);
        }
      }
    } finally {
      this.aborter.abort();
    }
  }

  private async pause(): Promise<void> {
    const span = Math.min(LONGEST, SHORTEST * 2 ** this.attempt) * (0.75 + Math.random() / 2);
    this.attempt += 1;
    if (this.attempt > 1) this.down.value = true;
    this.status.value = { state: "waiting", until: Date.now() + span, attempt: this.attempt };
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, span);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
