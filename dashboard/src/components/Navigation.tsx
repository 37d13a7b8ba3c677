/** The list of views: at the side; on a phone, the four that matter in a hurry at the bottom, and the others behind a button. */
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { manages, readsAllPools } from "../acting/permits";
import { concerns, watchConcerns } from "../attention";
import { FACE_NAV, link, route } from "../route";
import { phone } from "../screen";
import { Icon, type IconName } from "./Icon";

type View = [name: string, title: string, icon: IconName];

export const VIEWS: View[] = [
  ["pools", "Pools", "pools"],
  ["holds", "Holds", "holds"],
  ["journal", "Journal", "journal"],
  ["claims", "Claims", "claims"],
  ["items", "Items", "items"],
  ["faces", "Faces", "faces"],
  ["sagas", "Sagas", "sagas"],
  ["health", "Health", "health"],
  ["webhooks", "Webhooks", "webhooks"],
  ["keys", "Keys", "keys"],
];
/** Views of what only an admin manages: others are not led there. */
const MANAGED = ["webhooks", "keys"];
/** Views that a key which is limited to some pools can read. */
const OF_SOME_POOLS = ["pools", "holds"];
/** Always visible on a phone. */
const FIRST = ["pools", "holds", "journal", "health"];
export const NAV_ITEM: Record<string, string> = { pool: "pools", hold: "holds", past: "journal", ...FACE_NAV };

export function Navigation({ here }: { here: string }) {
  const views = VIEWS.filter(
    ([view]) => (!MANAGED.includes(view) || manages()) && (OF_SOME_POOLS.includes(view) || readsAllPools()),
  );
  const [shown, others] = phone.value
    ? [views.filter(([view]) => FIRST.includes(view)), views.filter(([view]) => !FIRST.includes(view))]
    : [views, []];
  return (
    <nav class="nav" aria-label="Views">
      {shown.map((view) => (
        <Entry key={view[0]} view={view} here={here} />
      ))}
      {others.length > 0 && <More views={others} here={here} />}
    </nav>
  );
}

function Entry({ view: [view, title, icon], here }: { view: View; here: string }) {
  return (
    <a href={link(view)} aria-current={here === view ? "page" : undefined}>
      <Icon name={icon} />
      <span>{title}</span>
      {view === "health" && <Badge />}
    </a>
  );
}

/** A button, and above it the views that have no room beside it. */
function More({ views, here }: { views: View[]; here: string }) {
  const open = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  const current = views.find(([view]) => view === here);
  useSignalEffect(() => {
    void route.value;
    open.value = false;
  });
  useEffect(() => {
    const leave = (event: Event): void => {
      const inside = event.target instanceof Node && box.current?.contains(event.target);
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !inside) open.value = false;
    };
    addEventListener("pointerdown", leave);
    addEventListener("keydown", leave);
    return () => (removeEventListener("pointerdown", leave), removeEventListener("keydown", leave));
  }, []);
  return (
    <div class="more-views" ref={box}>
      {open.value && (
        <div class="more-list" id="more-views">
          {views.map((view) => (
            <Entry key={view[0]} view={view} here={here} />
          ))}
        </div>
      )}
      <button
        type="button"
        aria-expanded={open.value}
        aria-controls="more-views"
        data-current={current ? "" : undefined}
        onClick={() => (open.value = !open.value)}
      >
        <Icon name="more" />
        <span>{current?.[1] ?? "More"}</span>
      </button>
    </div>
  );
}

/** How many things need a person. */
function Badge() {
  useEffect(watchConcerns, []);
  const count = concerns.value.length;
  if (count === 0) return null;
  const said = `${count} ${count === 1 ? "thing needs" : "things need"} attention`;
  return (
    <b class="attention" title={said} aria-label={said} role="img">
      {count}
    </b>
  );
}
