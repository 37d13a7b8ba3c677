/**
 * The API key: read once from the address (#key=…), which is then cleaned, or pasted by the user. It is kept for this tab
 * only, and is never part of a URL that is sent, never shown and never logged.
 */
import { signal } from "@preact/signals";

const NAME = "holdkit.key";

export const key = signal<string | null>(null);

/** What a link offered and was not taken: another key than the one in use, or something that is not a key. */
export const offered = signal<{ key: string } | "malformed" | null>(null);

/** Takes the key from the address, unless this tab already uses another one, or has asked for one (`later`): then it is only
 * offered. */
export function readKey(later = false): void {
  key.value ??= sessionStorage.getItem(NAME);
  if (!location.hash.startsWith("#key=")) return;
  const text = decoded(location.hash.slice("#key=".length));
  history.replaceState(null, "", `${location.pathname}${location.search}#/pools`);
  if (text === null) offered.value = "malformed";
  else if ((key.value === null && !later) || key.value === text) setKey(text);
  else offered.value = { key: text };
}

function decoded(text: string): string | null {
  try {
    const found = decodeURIComponent(text).trim();
    return /^hk_[a-z2-7]{16}_[\w-]{43}$/.test(found) ? found : null;
  } catch {
    return null; // a stray percent sign
  }
}

/** Uses the offered key from now on. */
export function takeOffered(): boolean {
  const found = offered.value;
  if (found === null || found === "malformed") return false;
  offered.value = null;
  setKey(found.key);
  return true;
}

export function setKey(text: string): void {
  key.value = text.trim();
  sessionStorage.setItem(NAME, key.value);
}

export function signOut(): void {
  key.value = null;
  sessionStorage.removeItem(NAME);
}
