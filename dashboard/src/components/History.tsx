/**
 * Plots over time. Long ones are kept in the database; those in steps of 10 seconds, requests and refusals are in the memory of the
 * server that answers, and begin when it was started.
 */
import { signal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { Notice } from "./Notice";
import { ReadState } from "./ReadState";
import { useFetched } from "../useFetched";

export type Window = "15m" | "1h" | "6h" | "24h" | "7d";
const WINDOWS: [Window, string, string][] = [
  ["15m", "15 min", "15 minutes"],
  ["1h", "1 h", "hour"],
  ["6h", "6 h", "6 hours"],
  ["24h", "24 h", "24 hours"],
  ["7d", "7 d", "7 days"],
];
/** Milliseconds between two reads: no shorter than the time between two writes of a server. */
const EVERY = 10_000;
const tick = signal(0);

/** Kept while the user goes from view to view. */
export const chosen: Signal<Window> = signal("1h");

/** Seconds of an interval in the memory of a server. */
export const RECENT = 10;

/** The first interval that is known. */
export const known = (values: (number | null)[]): number =>
  Math.max(
    0,
    values.findIndex((value) => value !== null),
  );
/** Where a plot of what is in memory begins: there, but with ten points at least. */
export const beginning = (values: (number | null)[]): number => Math.min(known(values), values.length - 10);

interface Recorded {
  recording: boolean;
  at: string[];
}

interface Props<T extends Recorded> {
  title: string;
  /** Names what is read. */
  of: string;
  windows: Window[];
  read: (window: Window, signal: AbortSignal) => Promise<T>;
  children: (value: T, times: number[]) => ComponentChildren;
}

export function History<T extends Recorded>({ title, of, windows, read, children }: Props<T>) {
  useEffect(() => {
    const timer = setInterval(() => (tick.value += 1), EVERY);
    return () => clearInterval(timer);
  }, []);
  const window = windows.includes(chosen.value) ? chosen.value : (windows.at(-1) ?? "1h");
  const found = useFetched<T>(
    `${of} ${window}`,
    (signal) => read(window, signal),
    () => void tick.value,
  );
  const long = WINDOWS.find(([value]) => value === window)?.[2] ?? "";
  return (
    <section class="card history">
      <div class="section-head">
        <h2>
          {title} <span class="muted">in the last {long}</span>
        </h2>
        <div class="chips" role="group" aria-label={`Time shown: ${title}`}>
          {WINDOWS.filter(([value]) => windows.includes(value)).map(([value, name]) => (
            <button
              key={value}
              type="button"
              class="chip"
              aria-pressed={window === value}
              onClick={() => (chosen.value = value)}
            >
              {name}
            </button>
          ))}
        </div>
      </div>
      <ReadState
        part
        read={found}
        what="the history"
        isEmpty={(value) => !value.recording}
        empty={
          <Notice title="Not recorded">
            <p class="muted">No statistics are recorded where tables are distributed.</p>
          </Notice>
        }
      >
        {(value) =>
          children(
            value,
            value.at.map((text) => Date.parse(text) / 1_000),
          )
        }
      </ReadState>
    </section>
  );
}
