/** A table of what is used, by account, key or client: it comes in pages, and each row leads to the holds behind it. */
import type { ComponentChildren } from "preact";
import { number, percent } from "../format";
import { link, linkWith } from "../route";
import type { Pages } from "../usePages";
import { Notice } from "./Notice";
import { ReadState } from "./ReadState";
import { Head } from "./Shell";
import { ShowMore } from "./ShowMore";

export interface Column<T> {
  name: string;
  /** A number, to the right. */
  figure?: boolean;
  /** The name is for screen readers only. */
  unseen?: boolean;
  class?: string;
  /** Shown in full where the cell has no room for it. */
  title?: (row: T) => string;
  cell: (row: T) => ComponentChildren;
}

interface Props<T> {
  pages: Pages<T>;
  /** Follows "Loading": "the windows". */
  what: string;
  /** Names the table for screen readers, and above it if `titled`. */
  label: string;
  titled?: boolean;
  about?: string;
  empty: { title: string; about: string };
  columns: Column<T>[];
  keyOf: (row: T) => string;
  /** Whether a row is past. */
  over?: (row: T) => boolean;
}

export function UseTable<T>({ pages, what, label, titled, about, empty, columns, keyOf, over }: Props<T>) {
  return (
    <ReadState
      read={pages.read}
      what={what}
      isEmpty={(page) => page.items.length === 0}
      empty={
        <Notice title={empty.title}>
          <p class="muted">{empty.about}</p>
        </Notice>
      }
    >
      {(page) => (
        <section class="card">
          {titled && <h2>{label}</h2>}
          {about && <p class="muted small">{about}</p>}
          <div class="scroll" tabIndex={0} role="region" aria-label={label}>
            <table class="plain windows">
              <thead>
                <tr>
                  {columns.map(({ name, figure, unseen }) => (
                    <th key={name} scope="col" class={figure ? "figure" : undefined}>
                      {unseen ? <span class="unseen">{name}</span> : name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {page.items.map((row) => (
                  <tr key={keyOf(row)} data-over={over?.(row) ? "" : undefined}>
                    {columns.map((column) => (
                      <td
                        key={column.name}
                        class={[column.class, column.figure && "figure"].filter(Boolean).join(" ")}
                        title={column.title?.(row)}
                      >
                        {column.cell(row)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <ShowMore pages={pages} />
        </section>
      )}
    </ReadState>
  );
}

/** The heading of the view of one thing of a face, which is named by callers. */
export function NamedHead({ face, name, children }: { face: string; name: string; children?: ComponentChildren }) {
  return (
    <Head
      over={<a href={link("faces")}>{face}</a>}
      title={
        <span class="id">
          <bdi>{name}</bdi>
        </span>
      }
    >
      {children}
    </Head>
  );
}

interface Used {
  consumed: number;
  held: number;
  total: number;
}

/** What is used of a total, as a bar. */
export function UseBar({ consumed, held, total }: Used) {
  const said = `${number(consumed)} consumed and ${number(held)} held of ${number(total)}`;
  return (
    <span class="bar" role="img" aria-label={said} data-over={consumed + held > total ? "" : undefined}>
      <span class="bar-consumed" style={{ width: `${percent(consumed, total)}%` }} />
      <span class="bar-held" style={{ width: `${percent(held, total)}%` }} />
    </span>
  );
}

/** The way from a pool of a face to who has its units. */
export const holdsColumn = <T extends { pool: string }>(): Column<T> => ({
  name: "holds",
  unseen: true,
  cell: ({ pool }) => <a href={linkWith("holds", { pool })}>holds</a>,
});
