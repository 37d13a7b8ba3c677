/** The engine's clock as this page knows it: every answer brings it along, so that a wrong clock here shows nothing wrong. */
import { signal } from "@preact/signals";

let ahead = 0;

/** Milliseconds on the engine's clock; ticks twice a second while anybody can see the page. */
export const now = signal(Date.now());

export function seeServerTime(text: string): void {
  const told = Date.parse(text);
  if (!Number.isNaN(told)) ahead = told - Date.now();
}

export const serverNow = (): number => Date.now() + ahead;

export function startClock(): void {
  now.value = serverNow();
  setInterval(() => {
    if (!document.hidden) now.value = serverNow();
  }, 500);
}
