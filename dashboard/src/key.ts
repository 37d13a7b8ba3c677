/**
 * The key: taken once from the address (#key=…), which is cleaned at once, or pasted. Kept for this tab only; never in a
 * URL that is sent, never shown, never logged.
 */
import { signal } from "@preact/signals";

const NAME = "holdkit.key";

export const key = signal<string | null>(null);

export function takeKey(): void {
  const given = /^#key=([^&]+)/.exec(location.hash)?.[1];
  if (given !== undefined) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/pools`);
    setKey(decodeURIComponent(given));
  } else {
    key.value = sessionStorage.getItem(NAME);
  }
}

export function setKey(text: string): void {
  key.value = text.trim();
  sessionStorage.setItem(NAME, key.value);
}

export function forgetKey(): void {
  key.value = null;
  sessionStorage.removeItem(NAME);
}
