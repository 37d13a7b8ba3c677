/** The journal back to its beginning, newest first, a page at a time, by every filter. */
import { EntryRow } from "../components/Entries";
import { Notice } from "../components/Notice";
import { PagedView, type Filter } from "../components/PagedView";
import { findEntries } from "../finding";
import { link } from "../route";
import type { EntryAnswer } from "../types";

/** Every action; a record, so that none can be missing. */
const ACTIONS: Record<EntryAnswer["action"], true> = {
  "pool.created": true,
  "pool.resized": true,
  "pool.removed": true,
  "pool.archived": true,
  "pool.unarchived": true,
  "pool.repaired": true,
  "pool.returned": true,
  "pool.limited": true,
  "hold.waiting": true,
  "hold.offered": true,
  "hold.held": true,
  "hold.extended": true,
  "hold.partly_confirmed": true,
  "hold.partly_released": true,
  "hold.confirmed": true,
  "hold.released": true,
  "hold.expired": true,
  "hold.returned": true,
  "hold.reassigned": true,
  "hold.retired": true,
  "leg.returned": true,
  "record.put": true,
  "limits.changed": true,
  "journal.baseline": true,
  "journal.erased": true,
  "command.refused": true,
};
const FILTERS: Filter[] = [
  {
    name: "action",
    label: "Action",
    options: [["", "All"], ...Object.keys(ACTIONS).map((name): [string, string] => [name, name])],
  },
  { name: "subject", label: "Subject", placeholder: "Id of a hold or pool" },
  { name: "actor", label: "Actor", placeholder: "user:7" },
  { name: "correlation_id", label: "Correlation id" },
];

export function Past() {
  return (
    <PagedView
      view="past"
      title="Past journal"
      one="entry"
      what="entries"
      actions={
        <a class="button" href={link("journal")}>
          Live journal
        </a>
      }
      filters={FILTERS}
      find={findEntries}
      keyOf={(entry) => entry.position}
      row={(entry) => <EntryRow entry={entry} dated />}
      rowHeight={[40, 76]}
      empty={
        <Notice title="No entries yet">
          <p class="muted">Every change is listed here as soon as it is committed.</p>
        </Notice>
      }
    />
  );
}
