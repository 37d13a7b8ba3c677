/**
 * The frame of a view that finds rows by filters, a page at a time. Filters and position are in the address, so that it can be
 * shared, and the browser's own Back and Forward turn the pages.
 */
import { useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Found } from "../finding";
import { number } from "../format";
import { goTo, linkWith, route, type Query } from "../route";
import { phone } from "../screen";
import { Icon } from "./Icon";
import { revision } from "../store";
import { useFetched, type Reading } from "../useFetched";
import { Notice } from "./Notice";
import { ReadState, staleSince } from "./ReadState";
import { Head } from "./Shell";
import { VirtualList } from "./VirtualList";

export interface Filter {
  name: string;
  label: string;
  placeholder?: string;
  /** The values to choose from, with their names; the first is the one without a filter. */
  options?: [string, string][];
}

interface Props<T> {
  view: string;
  title: string;
  actions?: ComponentChildren;
  /** Names a row, and several: "hold", "holds". */
  one: string;
  what: string;
  filters: Filter[];
  find: (asked: Query, signal: AbortSignal) => Promise<Found<T>>;
  keyOf: (item: T) => string;
  row: (item: T) => ComponentChildren;
  rowHeight: [desktop: number, phone: number];
  columns?: ComponentChildren;
  /** Shown if there is nothing, and no filter. */
  empty: ComponentChildren;
}

export function PagedView<T>(props: Props<T>) {
  const { view, what, filters } = props;
  const asked = route.value.query;
  const chosen = Object.fromEntries(filters.flatMap(({ name }) => (asked[name] ? [[name, asked[name]]] : []))) as Query;
  const positioned = asked.after !== undefined || asked.before !== undefined;
  const page = usePage(view, asked, props.find);
  return (
    <>
      <Head title={props.title}>{props.actions}</Head>
      <Filters filters={filters} chosen={chosen} apply={(query) => goTo(linkWith(view, query))} />
      <ReadState
        read={page}
        what={what}
        isEmpty={(found) => found.items.length === 0}
        empty={
          positioned || page.value?.partial || Object.keys(chosen).length > 0 ? (
            <NoneFit what={what} partial={page.value?.partial ?? false} positioned={positioned} />
          ) : (
            props.empty
          )
        }
      >
        {(found) => <Rows {...props} list={found.items} />}
      </ReadState>
      <Pager view={view} one={props.one} what={what} chosen={chosen} positioned={positioned} page={page} />
    </>
  );
}

function Rows<T>({ list, what, keyOf, row, rowHeight, columns }: Props<T> & { list: T[] }) {
  return (
    <section class="table">
      {columns}
      <VirtualList
        label={`${what.slice(0, 1).toUpperCase()}${what.slice(1)}`}
        count={list.length}
        rowHeight={rowHeight[phone.value ? 1 : 0]}
        keyOf={(index) => {
          const item = list[index];
          return item === undefined ? "" : keyOf(item);
        }}
        row={(index) => {
          const item = list[index];
          return item !== undefined && row(item);
        }}
      />
    </section>
  );
}

/** Milliseconds between two reads of a page because something has changed. */
const SETTLE = 2_000;

/** The page that the address names; read again when something has changed, unless reading it is much work. */
function usePage<T>(view: string, asked: Query, find: Props<T>["find"]): Reading<Found<T>> {
  const changes = useSignal(0);
  const timer = useRef(0);
  const costly = useRef(false);
  useSignalEffect(() => {
    void revision.value;
    timer.current ||= setTimeout(() => {
      timer.current = 0;
      if (!costly.current) changes.value += 1;
    }, SETTLE);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  const page = useFetched(
    `${view} ${JSON.stringify(asked)}`,
    (signal) => find(asked, signal),
    () => void changes.value,
  );
  costly.current = page.value?.costly ?? false;
  return page;
}

interface FiltersProps {
  filters: Filter[];
  chosen: Query;
  apply: (query: Query) => void;
}

/** On a phone they would fill the screen: there they are behind a button that says how many are in use. */
function Filters(props: FiltersProps) {
  const open = useSignal(false);
  const used = Object.keys(props.chosen).length;
  if (!phone.value) return <FilterForm {...props} />;
  return (
    <>
      <p class="filter-toggle">
        <button
          type="button"
          class="button"
          aria-expanded={open.value}
          aria-controls="filters"
          onClick={() => (open.value = !open.value)}
        >
          <Icon name="search" /> Filters{used > 0 && ` (${used})`}
        </button>
      </p>
      {open.value && <FilterForm {...props} />}
    </>
  );
}

/** Filters take effect with Enter or the button, so that half a name is not searched for; what is chosen from a list, at once. */
function FilterForm({ filters, chosen, apply }: FiltersProps) {
  const [draft, setDraft] = useState(chosen);
  useLayoutEffect(() => setDraft(chosen), [JSON.stringify(chosen)]);
  const write = (name: string, text: string): Query => {
    const changed = { ...draft, [name]: text };
    setDraft(changed);
    return changed;
  };
  const trimmed = (query: Query): Query =>
    Object.fromEntries(Object.entries(query).map(([name, text]) => [name, text.trim()]));
  return (
    <form
      class="filters"
      id="filters"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        apply(trimmed(draft));
      }}
    >
      {filters.map(({ name, label, placeholder, options }) => (
        <label key={name}>
          <span>{label}</span>
          {options ? (
            <select
              value={draft[name] ?? ""}
              onChange={(event) => apply(trimmed(write(name, event.currentTarget.value)))}
            >
              {options.map(([value, said]) => (
                <option key={value} value={value}>
                  {said}
                </option>
              ))}
            </select>
          ) : (
            <input
              type="text"
              value={draft[name] ?? ""}
              placeholder={placeholder}
              autocomplete="off"
              spellcheck={false}
              maxLength={600}
              onInput={(event) => write(name, event.currentTarget.value)}
            />
          )}
        </label>
      ))}
      <div class="filter-buttons">
        <button type="submit" class="button primary">
          Find
        </button>
        <button type="button" class="button" onClick={() => (setDraft({}), apply({}))}>
          Clear
        </button>
      </div>
    </form>
  );
}

function NoneFit({ what, partial, positioned }: { what: string; partial: boolean; positioned: boolean }) {
  return (
    <Notice title={partial ? "None found so far" : positioned ? `No more ${what}` : `No matching ${what}`}>
      <p class="muted">
        {partial
          ? "There is more to search: go on with the next page."
          : positioned
            ? "The list ends here."
            : "Names must match exactly, including case. Change or clear the filters."}
      </p>
    </Notice>
  );
}

interface PagerProps {
  view: string;
  one: string;
  what: string;
  chosen: Query;
  positioned: boolean;
  page: Reading<Found<unknown>>;
}

/** The buttons stay where they are while a page is read: the focus must not be lost. */
function Pager({ view, one, what, chosen, positioned, page }: PagerProps) {
  const found = page.value;
  const count = found?.items.length ?? 0;
  const said = `${number(count)} ${count === 1 ? one : what}`;
  const turn = (name: string, text: string, to: Query | null) => (
    <button
      type="button"
      class="button small"
      data-page={name}
      aria-disabled={to === null}
      onClick={() => to && goTo(linkWith(view, { ...chosen, ...to }))}
    >
      {text}
    </button>
  );
  return (
    <nav class="pager" aria-label="Pages">
      <span class="muted" role="status">
        {found === null || staleSince(page) !== null
          ? ""
          : found.partial
            ? `${said} so far; there is more to search`
            : `${said}${found.previous || found.next ? " on this page" : ""}`}
      </span>
      {turn("first", "First", positioned ? {} : null)}
      {turn("previous", "Previous", found?.previous ?? null)}
      {turn("next", "Next", found?.next ?? null)}
    </nav>
  );
}
