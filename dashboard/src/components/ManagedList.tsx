/** The list of what an admin manages: one card for each, with its state, its facts and its buttons. */
import type { ComponentChildren } from "preact";
import { manages } from "../acting/permits";
import { ask } from "../api";
import { revision } from "../store";
import { useFetched } from "../useFetched";
import { NeedsAdmin } from "./NeedsAdmin";
import { Notice } from "./Notice";
import { ReadState } from "./ReadState";
import { Head } from "./Shell";

interface Props<T> {
  title: string;
  /** Names them within a sentence: "API keys". */
  what: string;
  path: string;
  create: { name: string; open: (after: () => void) => void };
  empty: { title: string; about: string };
  /** Orders them, if not as the server does. */
  compare?: (one: T, other: T) => number;
  card: (item: T, after: () => void) => ComponentChildren;
}

export function ManagedList<T>(props: Props<T>) {
  if (!manages()) return <NeedsAdmin title={props.title} what={props.what} />;
  return <List {...props} />;
}

function List<T>({ title, what, path, create, empty, compare, card }: Props<T>) {
  const read = useFetched<{ items: T[] }>(
    path,
    (signal) => ask(path, { signal }),
    () => void revision.value,
  );
  const after = (): void => void read.refresh();
  return (
    <>
      <Head title={title}>
        <button type="button" class="button" onClick={() => create.open(after)}>
          {create.name}
        </button>
      </Head>
      <ReadState
        read={read}
        what={`the ${what}`}
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Notice title={empty.title}>
            <p class="muted">{empty.about}</p>
          </Notice>
        }
      >
        {({ items }) => <>{(compare ? [...items].sort(compare) : items).map((item) => card(item, after))}</>}
      </ReadState>
    </>
  );
}

export interface ManagedButton {
  name: string;
  danger?: boolean;
  click: () => void;
}

interface CardProps {
  /** Tells the card from others, for tests and styles. */
  mark: Record<`data-${string}`, string>;
  name: ComponentChildren;
  state: string;
  /** The colour of the state: that of a state of holds. */
  kind: string | undefined;
  /** More for the first line. */
  more?: ComponentChildren;
  wrong?: string | null | undefined;
  facts: Fact[];
  buttons: ManagedButton[];
  children?: ComponentChildren;
}

export function ManagedCard({ mark, name, state, kind, more, wrong, facts, buttons, children }: CardProps) {
  return (
    <section class="card managed" {...mark}>
      <div class="timeline-line">
        {name}
        <span class="badge" data-kind={kind}>
          {state}
        </span>
        {more}
      </div>
      {wrong && <p class="wrong">{wrong}</p>}
      <Facts facts={facts} />
      {buttons.length > 0 && (
        <div class="managed-buttons">
          {buttons.map(({ name, danger, click }) => (
            <button key={name} type="button" class={danger ? "button small danger" : "button small"} onClick={click}>
              {name}
            </button>
          ))}
        </div>
      )}
      {children}
    </section>
  );
}

/** A name, and what is known of it; null if there is nothing to say. */
export type Fact = [string, ComponentChildren];

export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) =>
        value ? (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}
