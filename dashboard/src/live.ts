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
/** The server sends something every 15 s; a connection that is silent for this long is dead. */
const SILENCE = 40_000;
/** Milliseconds for which a hidden tab keeps its connection. */
const HIDDEN = 10_000;
const AWAY = "the server cannot be reached";

export class Stream {
  readonly status = signal<ConnectionStatus>({ state: "connecting" });
  /** The connection is refused, or broke and did not come back at once: nobody reports changes any more. */
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

  /** `forbidden` takes over if the API key may not read this stream. */
  constructor(
    private readonly path: () => string,
    private readonly take: (frame: ServerEvent) => void,
    private readonly forbidden: (() => void) | null = null,
  ) {}

  start(): void {
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
    this.aborter.abort();
    this.wake();
  }

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
      this.why.value = refused?.message ?? AWAY;
      if (refused && refused.status < 500 && refused.status !== 429) {
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
  }

  /** One connection, until it breaks; returns a problem if the server refused it. */
  private async once(): Promise<Problem | null> {
    this.aborter = new AbortController();
    let watchdog = 0;
    const listen = (): void => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => this.aborter.abort(), SILENCE);
    };
    listen();
    try {
      const answer = await fetch(address(this.path()), {
        headers: { ...headers(), Accept: "text/event-stream" },
        cache: "no-store",
        credentials: "omit",
        signal: this.aborter.signal,
      });
      if (!answer.ok || answer.body === null) return problem(answer.status, await answer.json().catch(() => ({})));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const frames = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return null;
        listen();
        this.heard.value = serverNow();
        for (const frame of frames.take(value)) {
          this.attempt = 0;
          if (this.status.peek().state !== "live") this.status.value = { state: "live" };
          this.down.value = false;
          this.take(frame);
        }
      }
    } finally {
      clearTimeout(watchdog);
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
