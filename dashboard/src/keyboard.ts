/** The keyboard: / searches, j and k (in a list also the arrows) move, Enter opens, Escape leaves, g and a letter goes
 * somewhere, ? tells. */
import { signal } from "@preact/signals";
import { asking } from "./parts/Dialog";
import { active } from "./parts/Virtual";
import { go } from "./route";

export const helping = signal(false);

export const PLACES: Record<string, string> = {
  p: "pools",
  j: "journal",
  c: "claims",
  i: "items",
  s: "sagas",
  h: "health",
};

let going = false;

export function startKeyboard(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || asking()) return;
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === "Escape") leave(typing ? (event.target as HTMLInputElement) : null);
    else if (typing) {
      if (event.key === "ArrowDown" || event.key === "Enter") step(event, 1);
    } else if (going) {
      going = false;
      const place = PLACES[event.key];
      if (place) go(place);
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
      going = true;
      break;
    case "?":
      helping.value = !helping.peek();
      break;
  }
}

function step(event: Event, by: number): void {
  if (!active.value) return;
  event.preventDefault();
  active.value.move(by);
}

/** Close the help; else empty the search; else leave it; else go up. */
function leave(field: HTMLInputElement | null): void {
  if (helping.peek()) helping.value = false;
  else if (field && field.value !== "") {
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (field) field.blur();
  else if (/^#\/(pool|hold)\//.test(location.hash)) history.length > 1 ? history.back() : go("pools");
}
