/** Keyboard shortcuts: / searches, j and k (in a list also the arrows) move, Enter opens, Escape clears, closes or goes back,
 * g and a letter opens a view, ? shows the shortcuts. */
import { signal } from "@preact/signals";
import { dialogOpen } from "./components/Dialog";
import { active } from "./components/VirtualList";
import { go } from "./route";

export const helpShown = signal(false);

export const VIEWS: Record<string, string> = {
  p: "pools",
  j: "journal",
  c: "claims",
  i: "items",
  f: "faces",
  s: "sagas",
  h: "health",
};

let awaitingView = false;

export function startKeyboard(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || dialogOpen()) return;
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === "Escape") escape(typing ? (event.target as HTMLInputElement) : null);
    else if (typing) {
      if (event.key === "ArrowDown" || event.key === "Enter") step(event, 1);
    } else if (awaitingView) {
      awaitingView = false;
      const view = VIEWS[event.key];
      if (view) go(view);
    } else press(event);
  });
}

function press(event: KeyboardEvent): void {
  switch (event.key) {
    case "/": {
      event.preventDefault();
      document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      break;
    }
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
