/** The colour theme: light, dark, or the system's. */
import { computed, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const NAME = "holdkit.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);

export const theme = signal<Theme>("auto");
export const dark = computed(() => (theme.value === "auto" ? systemDark.value : theme.value === "dark"));

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  localStorage.setItem(NAME, chosen);
  document.documentElement.dataset.theme = chosen;
}

export function startTheme(): void {
  const kept = localStorage.getItem(NAME);
  setTheme(kept === "light" || kept === "dark" ? kept : "auto");
  system.addEventListener("change", (event) => (systemDark.value = event.matches));
}
