/** Whether the screen is as narrow as a phone's. */
import { signal } from "@preact/signals";

const narrow = matchMedia("(max-width: 720px)");

export const phone = signal(narrow.matches);
narrow.addEventListener("change", (event) => (phone.value = event.matches));
