/**
 * Server-sent events over `fetch`, because an EventSource cannot send a header. Reconnects by itself, with growing pauses.
 * Stores no event.
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

export class Stream {
  readonly status = signal<ConnectionStatus>({ state: "connecting" });
  /** The connection is refused, or broke and did not come back at once: nobody reports changes any more. */
  readonly down = signal(false);
  /** The last sign of life, in milliseconds on the engine's clock: what this stream reports was current then. */
  readonly heard = signal(0);
  private attempt = 0;
  private stopped = false;
  private aborter = new AbortController();
  private wake: () => void = () => undefined;

  constructor(
    private readonly path: () => string,
    private readonly take: (frame: ServerEvent) => void,
  ) {}

  start(): void {
    addEventListener("online", this.retry);
    void this.run();
  }

  stop(): void {
    this.stopped = true;
    removeEventListener("online", this.retry);
    this.aborter.abort();
    this.wake();
  }

  /** End the present pause. */
  readonly retry = (): void => this.wake();

  private async run(): Promise<void> {
    while (!this.stopped) {
      if (this.status.peek().state !== "live") this.status.value = { state: "connecting" };
      const refused = await this.once().catch(() => null);
      if (this.stopped) return;
      if (refused && refused.status < 500 && refused.status !== 429) {
        this.down.value = true;
        this.status.value = { state: "refused", problem: refused };
        return;
      }
      await this.pause();
    }
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
