/** A set of budgets, or a rate: each client and window, with what was estimated, what was spent and what is left. */
import { useSignal, useSignalEffect } from "@preact/signals";
import { ask } from "../api";
import { now } from "../clock";
import { Icon } from "../components/Icon";
import { holdsColumn, NamedHead, UseBar, UseTable, type Column } from "../components/UseTable";
import { perName } from "../faces";
import { moment, number, span } from "../format";
import { noteInAddress, route } from "../route";
import { revision } from "../store";
import type { StoredWindowAnswer, StoredWindowPage } from "../types";
import { usePages } from "../usePages";

const PAGE = 50;

export function WindowsView({ face, id }: { face: "budgets" | "rates"; id: string }) {
  const client = useSignal(route.peek().query.client ?? "");
  useSignalEffect(() => noteInAddress(face, { client: client.value }, id));
  return (
    <>
      <NamedHead face={face === "budgets" ? "Budgets" : "Rates"} name={id} />
      <div class="tools">
        <label class="search wide">
          <Icon name="search" />
          <input
            type="search"
            aria-label="Client"
            placeholder="Client, exactly as it is written"
            value={client.value}
            maxLength={512}
            onInput={(event) => (client.value = event.currentTarget.value)}
          />
          <kbd>f</kbd>
        </label>
      </div>
      <Windows key={client.value} face={face} name={id} client={client.value.trim()} />
    </>
  );
}

type One = StoredWindowAnswer;

const left = ({ closes }: One): number | null => (closes === null ? null : Date.parse(closes) - now.value);
const isOver = (one: One): boolean => (left(one) ?? 1) <= 0;

function When({ one }: { one: One }) {
  const time = left(one);
  return (
    <>
      {perName(one.per)} <span class="muted">{time === null ? "" : time > 0 ? `ends in ${span(time)}` : "over"}</span>
    </>
  );
}

const CLIENT: Column<One> = {
  name: "client",
  class: "id who",
  title: ({ client }) => client,
  cell: ({ client }) => <bdi>{client}</bdi>,
};
const WINDOW: Column<One> = {
  name: "window",
  title: ({ opens, closes }) => `from ${moment(opens)}${closes === null ? "" : ` until ${moment(closes)}`}`,
  cell: (one) => <When one={one} />,
};
const LEFT: Column<One>[] = [
  { name: "left", figure: true, cell: ({ available }) => number(available) },
  { name: "total", figure: true, cell: ({ total }) => number(total) },
  { name: "use", unseen: true, class: "use-bar", cell: (one) => <UseBar {...one} /> },
  holdsColumn(),
];
const spent = (name: string): Column<One> => ({
  name,
  figure: true,
  class: "figure-consumed",
  cell: ({ consumed }) => number(consumed),
});
const COLUMNS: Record<"budgets" | "rates", Column<One>[]> = {
  budgets: [
    CLIENT,
    { name: "budget", class: "id", cell: ({ budget }) => <bdi>{budget}</bdi> },
    WINDOW,
    { name: "estimated", figure: true, class: "figure-held", cell: ({ held }) => number(held) },
    spent("actual"),
    ...LEFT,
  ],
  rates: [CLIENT, WINDOW, spent("taken"), ...LEFT],
};

function Windows({ face, name, client }: { face: "budgets" | "rates"; name: string; client: string }) {
  const pages = usePages<One>(
    `${face} ${name} ${client}`,
    (after, signal) =>
      ask<StoredWindowPage>("v1/windows", {
        query: { face, name, client: client || undefined, after, limit: PAGE },
        signal,
      }),
    () => void revision.value,
  );
  return (
    <UseTable
      pages={pages}
      what="the windows"
      label="Windows"
      empty={{
        title: client === "" ? "No window is in use" : "No window of this client is in use",
        about: "A window appears here when it is first used, and is swept away after it is over.",
      }}
      columns={COLUMNS[face]}
      keyOf={({ pool }) => pool}
      over={isOver}
    />
  );
}
