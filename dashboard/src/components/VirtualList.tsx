/**
 * A list of any length, of which only the visible rows are in the document. Tab reaches one row, the chosen one; j and k, or
 * the arrows, move from there, and Enter opens it. It scrolls with `main`, the page's only scroll container.
 */
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  count: number;
  rowHeight: number;
  keyOf: (index: number) => string;
  row: (index: number) => ComponentChildren;
  /** The rows answer an older text than the one in the search field: Enter there waits for the right ones. */
  outdated?: boolean;
}

/** Rows that are drawn beyond the visible ones. */
const SPARE = 10;

/** The list that j and k move in. */
export const active = signal<{ move: (by: number) => void } | null>(null);
/** Enter was pressed in a search field: the first row is to be opened, once the list has what was searched for. */
export const openFirst = signal(false);

export function VirtualList({ label, count, rowHeight, keyOf, row, outdated = false }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const seen = useSignal<[number, number]>([0, 30]);
  const chosen = useSignal(0);
  const wanted = useRef<number | null>(null);

  const look = (): void => {
    const list = box.current;
    const scroller = list?.closest("main");
    if (!list || !scroller) return;
    const above = scroller.getBoundingClientRect().top - list.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(above / rowHeight) - SPARE);
    const last = Math.max(first, Math.min(count, Math.ceil((above + scroller.clientHeight) / rowHeight) + SPARE));
    const [was, till] = seen.peek();
    if (was !== first || till !== last) seen.value = [first, last];
  };

  useLayoutEffect(look);
  useEffect(() => {
    const scroller = box.current?.closest("main");
    const watcher = new ResizeObserver(look);
    if (scroller) watcher.observe(scroller);
    scroller?.addEventListener("scroll", look, { passive: true });
    return () => {
      watcher.disconnect();
      scroller?.removeEventListener("scroll", look);
    };
  });

  useEffect(() => {
    const mine = {
      move: (by: number) => {
        const inside = box.current?.contains(document.activeElement);
        const next = Math.max(0, Math.min(count - 1, inside ? chosen.peek() + by : chosen.peek()));
        chosen.value = next;
        wanted.current = next;
        reveal(box.current, next, rowHeight);
        look();
        focusWanted();
      },
    };
    active.value = mine;
    return () => {
      if (active.peek() === mine) active.value = null;
    };
  });

  const focusWanted = (): void => {
    if (wanted.current === null) return;
    const target = box.current?.querySelector<HTMLElement>(
      `[data-index="${wanted.current}"] a, [data-index="${wanted.current}"] button`,
    );
    if (target) {
      target.focus({ preventScroll: true });
      wanted.current = null;
    }
  };
  useLayoutEffect(focusWanted);

  const opening = openFirst.value && !outdated && count > 0;
  useLayoutEffect(() => {
    if (!opening) return;
    reveal(box.current, 0, rowHeight);
    look();
    const first = box.current?.querySelector<HTMLElement>('[data-index="0"] a, [data-index="0"] button');
    if (!first) return; // not drawn yet
    openFirst.value = false;
    first.click();
  });

  const [first, last] = seen.value;
  const visible = chosen.value >= first && chosen.value < Math.min(last, count);
  const reached = visible ? chosen.value : Math.min(count - 1, first + SPARE);
  useLayoutEffect(() => {
    for (const target of box.current?.querySelectorAll<HTMLElement>(".virtual-row > a") ?? [])
      target.tabIndex = Number(target.parentElement?.dataset.index) === reached ? 0 : -1;
  });
  const rows = [];
  for (let index = first; index < Math.min(last, count); index += 1) {
    rows.push(
      <div
        key={keyOf(index)}
        class="virtual-row"
        role="listitem"
        aria-setsize={count}
        aria-posinset={index + 1}
        data-index={index}
        data-chosen={index === chosen.value ? "" : undefined}
        style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}
        onFocusIn={() => (chosen.value = index)}
      >
        {row(index)}
      </div>,
    );
  }
  return (
    <div ref={box} class="virtual" role="list" aria-label={label} style={{ height: `${count * rowHeight}px` }}>
      {rows}
    </div>
  );
}

function reveal(list: HTMLElement | null, index: number, rowHeight: number): void {
  const scroller = list?.closest("main");
  if (!list || !scroller) return;
  const frame = scroller.getBoundingClientRect();
  const top = list.getBoundingClientRect().top - frame.top + index * rowHeight;
  const margin = rowHeight * 2;
  if (top < margin) scroller.scrollTop += top - margin;
  else if (top + rowHeight > scroller.clientHeight - rowHeight)
    scroller.scrollTop += top + rowHeight * 2 - scroller.clientHeight;
}
