/** The engine's clock: every answer of the server carries it, so a wrong clock in the browser shows no wrong countdown. */
import { signal } from "@preact/signals";

let ahead = 0;

/** Milliseconds on the engine's clock; updated twice a second while the page is visible. */
export const now = signal(Date.now());

export function syncClock(text: string): void {
  const parsed = Date.parse(text);
  if (!Number.isNaN(parsed)) ahead = parsed - Date.now();
}

export const serverNow = (): number => Date.now() + ahead;

export function startClock(): void {
  now.value = serverNow();
  setInterval(() => {
    if (!document.hidden) now.value = serverNow();
  }, 500);
}
