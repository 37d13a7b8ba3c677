/** Keyboard shortcuts: / finds anything, f searches in the view, j and k (in a list also the arrows) move, Enter opens, n and p
 * turn pages, Escape clears, closes or goes back, g and a letter opens a view, ? shows the shortcuts. */
import { signal } from "@preact/signals";
import { dialogOpen } from "./components/Dialog";
import { active, openFirst } from "./components/VirtualList";
import { go } from "./route";
import { me } from "./store";

export const helpShown = signal(false);
export const finderShown = signal(false);

export const VIEWS: Record<string, string> = {
  p: "pools",
  o: "holds",
  j: "journal",
  c: "claims",
  i: "items",
  f: "faces",
  s: "sagas",
  h: "health",
  w: "webhooks",
  k: "keys",
};

/** Milliseconds for which Enter in a search field waits for the answer. */
const PATIENCE = 5_000;

let awaitingView = false;
let waiting = 0;

export function startKeyboard(): void {
  addEventListener("pointerdown", cancelOpening);
  addEventListener("hashchange", cancelOpening);
  addEventListener("keydown", (event) => {
    cancelOpening();
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (dialogOpen() || finderShown.peek()) return;
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === "Escape") escape(typing ? (event.target as HTMLInputElement) : null);
    else if (typing) {
      if (event.target.type !== "search") return;
      if (event.key === "ArrowDown") step(event, 1);
      else if (event.key === "Enter") openFound(event);
    } else if (awaitingView) {
      awaitingView = false;
      const view = VIEWS[event.key];
      if (view) go(view);
    } else press(event);
  });
}

function press(event: KeyboardEvent): void {
  switch (event.key) {
    case "/":
      event.preventDefault();
      if (me.peek()) finderShown.value = true;
      break;
    case "f":
      event.preventDefault();
      document.querySelector<HTMLInputElement>("input[type=search], .filters input")?.focus();
      break;
    case "n":
    case "p":
      document.querySelector<HTMLElement>(`[data-page=${event.key === "n" ? "next" : "previous"}]`)?.click();
      break;
    case "j":
      return step(event, 1);
    case "k":
      return step(event, -1);
    case "ArrowDown":
    case "ArrowUp":
      if (event.target instanceof Element && event.target.closest(".virtual"))
        step(event, event.key === "ArrowDown" ? 1 : -1);
      break;
    case "g":
      awaitingView = true;
      break;
    case "?":
      helpShown.value = !helpShown.peek();
      break;
  }
}

function step(event: Event, by: number): void {
  if (!active.value) return;
  event.preventDefault();
  active.value.move(by);
}

/** Open the first row of what is searched for, now or when it is there. */
function openFound(event: Event): void {
  event.preventDefault();
  openFirst.value = true;
  waiting = setTimeout(cancelOpening, PATIENCE);
}

function cancelOpening(): void {
  clearTimeout(waiting);
  openFirst.value = false;
}

/** Close the help; otherwise clear the search field; otherwise leave it; otherwise go back. */
function escape(field: HTMLInputElement | null): void {
  if (helpShown.peek()) helpShown.value = false;
  else if (field && field.value !== "") {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (field) field.blur();
  else if (/^#\/(pool|hold|calendar|budgets|rates|resources|section|account)\//.test(location.hash))
    history.length > 1 ? history.back() : go("pools");
}
