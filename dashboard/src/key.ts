/**
 * The API key: read once from the address (#key=…), which is then cleaned, or pasted by the user. It is kept for this tab
 * only, and is never part of a URL that is sent, never shown and never logged.
 */
import { signal } from "@preact/signals";

const NAME = "holdkit.key";

export const key = signal<string | null>(null);

export function readKey(): void {
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

export function signOut(): void {
  key.value = null;
  sessionStorage.removeItem(NAME);
}
