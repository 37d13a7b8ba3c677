/** A short message that says what was done, shown for a few seconds. */
import { signal } from "@preact/signals";

const said = signal<string | null>(null);
let timer = 0;

export function showToast(text: string): void {
  said.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (said.value = null), 6_000);
}

export function Toast() {
  return (
    <div class="toast" role="status" aria-live="polite" data-shown={said.value === null ? undefined : ""}>
      {said.value}
    </div>
  );
}
