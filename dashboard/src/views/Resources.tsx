/** A kind of resource: each key and window, with the capacity that the application answered last. */
import { ask } from "../api";
import { holdsColumn, NamedHead, UseBar, UseTable, type Column } from "../components/UseTable";
import { number } from "../format";
import { revision } from "../store";
import type { ResourceAnswer, ResourcePage } from "../types";
import { usePages } from "../usePages";

const PAGE = 50;

/** A text without its quotation marks; anything else as JSON. */
const shown = (json: string): string => (/^"[^"\\]*"$/.test(json) ? json.slice(1, -1) : json);

const COLUMNS: Column<ResourceAnswer>[] = [
  { name: "key", class: "id who", title: ({ key }) => key, cell: ({ key }) => <bdi>{shown(key)}</bdi> },
  {
    name: "window",
    class: "id who",
    title: ({ window }) => window,
    cell: ({ window }) => (window === "null" ? <span class="muted">none</span> : <bdi>{shown(window)}</bdi>),
  },
  { name: "consumed", figure: true, class: "figure-consumed", cell: ({ consumed }) => number(consumed) },
  { name: "held", figure: true, class: "figure-held", cell: ({ held }) => number(held) },
  { name: "free", figure: true, cell: ({ available }) => number(available) },
  { name: "capacity", figure: true, cell: ({ total }) => number(total) },
  { name: "use", unseen: true, class: "use-bar", cell: (one) => <UseBar {...one} /> },
  holdsColumn(),
];

export function ResourcesView({ id }: { id: string }) {
  const pages = usePages<ResourceAnswer>(
    id,
    (after, signal) => ask<ResourcePage>("v1/resources", { query: { kind: id, after, limit: PAGE }, signal }),
    () => void revision.value,
  );
  return (
    <>
      <NamedHead face="Resources" name={id} />
      <UseTable
        pages={pages}
        what="the resources"
        label="Keys"
        about="The capacity is the one that the application answered last."
        empty={{
          title: "Nothing is kept of a resource of this kind",
          about: "A key appears here once something of it was held.",
        }}
        columns={COLUMNS}
        keyOf={({ pool }) => pool}
      />
    </>
  );
}
