/** A section of seats as a map: rows from the front to the back, seats at their positions, with aisles where nothing is. */
import { ask } from "../api";
import { number } from "../format";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { ShowMore } from "../components/ShowMore";
import { NamedHead } from "../components/UseTable";
import { link } from "../route";
import { revision } from "../store";
import type { Item, ItemList, Seat, SeatPage } from "../types";
import { usePages } from "../usePages";

/** Seats that are read at once, with their states. */
const PAGE = 1_000;
/** Positions between two seats that are drawn as a gap; a wider one is drawn as this. */
const WIDEST = 4;

interface Place {
  seat: Seat;
  item: Item;
}

async function read(
  section: string,
  after: string,
  signal: AbortSignal,
): Promise<{ items: Place[]; next: string | null }> {
  const page = await ask<SeatPage>("v1/seats", { query: { section, after, limit: PAGE }, signal });
  const ids = page.seats.map((seat) => seat.id);
  if (ids.length === 0) return { items: [], next: page.next };
  const states = await ask<ItemList>("v1/items/get", { method: "POST", body: { ids }, signal });
  const byId = new Map(states.items.map((item) => [item.id, item]));
  const missing = (id: string): Item => ({ id, state: "missing", hold: null, yours: null });
  return { items: page.seats.map((seat) => ({ seat, item: byId.get(seat.id) ?? missing(seat.id) })), next: page.next };
}

export function SectionView({ id }: { id: string }) {
  const pages = usePages<Place>(
    id,
    (after, signal) => read(id, after, signal),
    () => void revision.value,
  );
  return (
    <>
      <NamedHead face="Seats" name={id} />
      <ReadState
        read={pages.read}
        what="the seats"
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Notice title="This section has no seats">
            <p class="muted">Seats that are added to it appear here.</p>
          </Notice>
        }
      >
        {(page) => (
          <>
            <Counts places={page.items} partial={page.next !== null} />
            <section class="card">
              <Legend places={page.items} />
              <p class="front muted small" aria-hidden="true">
                front
              </p>
              <div class="scroll seats" tabIndex={0} role="region" aria-label="Map of the seats">
                {rowsOf(page.items).map(([row, places]) => (
                  <Row key={row} row={row} places={places} first={firstOf(page.items)} />
                ))}
              </div>
            </section>
            <ShowMore pages={pages} />
          </>
        )}
      </ReadState>
    </>
  );
}

const STATES = ["available", "held", "confirmed"] as const;

function Counts({ places, partial }: { places: Place[]; partial: boolean }) {
  return (
    <>
      <dl class="tiles">
        {STATES.map((state) => (
          <div class="tile" key={state}>
            <dt>{state}</dt>
            <dd class={state === "held" ? "figure-held" : state === "confirmed" ? "figure-consumed" : ""}>
              {number(places.filter(({ item }) => item.state === state).length)}
            </dd>
          </div>
        ))}
      </dl>
      {partial && <p class="muted small">Of the first {number(places.length)} seats, from the front.</p>}
    </>
  );
}

/** What the colours and borders of the map mean. */
function Legend({ places }: { places: Place[] }) {
  const kinds = [...new Set(places.map(({ seat }) => seat.kind).filter(Boolean))];
  return (
    <p class="muted small seat-legend">
      <i class="key" /> available <i class="key key-held" /> held <i class="key key-consumed" /> confirmed
      {kinds.length > 0 && (
        <>
          {" "}
          <i class="key key-kind" /> {kinds.slice(0, 4).join(", ")}
        </>
      )}
    </p>
  );
}

const positionOf = ({ seat }: Place): number => seat.position ?? 0;
const firstOf = (places: Place[]): number =>
  places.reduce((least, place) => Math.min(least, positionOf(place)), Infinity);

function rowsOf(places: Place[]): [string, Place[]][] {
  const rows = new Map<string, Place[]>();
  for (const place of places) {
    const row = String(place.seat.row);
    const known = rows.get(row);
    if (known) known.push(place);
    else rows.set(row, [place]);
  }
  return [...rows];
}

function Row({ row, places, first }: { row: string; places: Place[]; first: number }) {
  let before = first - 1;
  return (
    <div class="seat-row">
      <span class="seat-row-name" title={`row ${row}`}>
        <bdi>{row}</bdi>
      </span>
      <ul aria-label={`Row ${row}`}>
        {places.map((place) => {
          const gap = Math.min(WIDEST, positionOf(place) - before - 1);
          before = positionOf(place);
          return <SeatCell key={place.seat.id} place={place} gap={gap} />;
        })}
      </ul>
    </div>
  );
}

function SeatCell({ place: { seat, item }, gap }: { place: Place; gap: number }) {
  const said = `row ${seat.row}, seat ${seat.number}${seat.kind ? `, ${seat.kind}` : ""}: ${item.state} (${seat.id})`;
  const text = <bdi>{seat.number}</bdi>;
  return (
    <li data-state={item.state} data-kind-of-seat={seat.kind ? "" : undefined} style={{ "--gap-before": gap }}>
      {item.hold === null ? (
        <span title={said}>{text}</span>
      ) : (
        <a href={link("hold", item.hold)} title={said}>
          {text}
        </a>
      )}
      <span class="unseen">{item.state}</span>
    </li>
  );
}
