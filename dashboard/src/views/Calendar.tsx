/** A calendar: rooms by nights (or by intervals of a day), each with what is held, consumed and free. */
import { useSignal, useSignalEffect } from "@preact/signals";
import { ask } from "../api";
import { now, serverNow } from "../clock";
import { number, percent } from "../format";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { ShowMore } from "../components/ShowMore";
import { NamedHead } from "../components/UseTable";
import { linkWith, noteInAddress, route } from "../route";
import { phone } from "../screen";
import { revision } from "../store";
import type { CalendarPage, CellAnswer, RoomAnswer } from "../types";
import { usePages } from "../usePages";

const PAGE = 25;
const DAY = 86_400_000;

/** A date as calendars write it, in UTC. */
const dateOf = (milliseconds: number): string => new Date(milliseconds).toISOString().slice(0, 10);
const today = (): string => dateOf(serverNow());
const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text));

export function CalendarView({ id }: { id: string }) {
  const { from = "" } = route.peek().query;
  const begin = useSignal(isDate(from) ? from : today());
  useSignalEffect(() => noteInAddress("calendar", { from: today() === begin.value ? "" : begin.value }, id));
  const days = phone.value ? 7 : 14;
  const move = (by: number): void => void (begin.value = dateOf(Date.parse(begin.peek()) + by * DAY));
  return (
    <>
      <NamedHead face="Calendars" name={id} />
      <div class="tools">
        <button type="button" class="button small" onClick={() => move(-days)}>
          Earlier
        </button>
        <label class="date">
          <span class="unseen">From</span>
          <input
            type="date"
            value={begin.value}
            min="1971-01-01"
            max="9996-12-31"
            onChange={(event) => isDate(event.currentTarget.value) && (begin.value = event.currentTarget.value)}
          />
        </label>
        <button type="button" class="button small" onClick={() => move(days)}>
          Later
        </button>
        <span class="muted small">
          <i class="key" /> free <i class="key key-held" /> held <i class="key key-consumed" /> booked{" "}
          <b class="key-never">·</b> never held
        </span>
      </div>
      <Range key={`${begin.value} ${days}`} name={id} begin={begin.value} days={days} />
    </>
  );
}

function Range({ name, begin, days }: { name: string; begin: string; days: number }) {
  const pages = usePages<RoomAnswer>(
    `${name} ${begin} ${days}`,
    (after, signal) => ask<CalendarPage>("v1/calendars", { query: { name, begin, days, after, limit: PAGE }, signal }),
    () => void revision.value,
  );
  const dates = Array.from({ length: days }, (_, index) => dateOf(Date.parse(begin) + index * DAY));
  return (
    <ReadState
      read={pages.read}
      what="the calendar"
      isEmpty={(page) => page.items.length === 0}
      empty={
        <Notice title="Nothing is kept of a calendar of this name">
          <p class="muted">
            A room appears here once one of its nights was held, and disappears after all of them are over.
          </p>
        </Notice>
      }
    >
      {(page) => (
        <>
          <section class="card calendar">
            <div class="scroll" tabIndex={0} role="region" aria-label="Rooms by nights">
              <table>
                <thead>
                  <tr>
                    <th scope="col">room</th>
                    {dates.map((date) => (
                      <Day key={date} date={date} />
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((room) => (
                    <Room key={room.room} room={room} dates={dates} />
                  ))}
                </tbody>
              </table>
            </div>
          </section>
          <ShowMore pages={pages} />
        </>
      )}
    </ReadState>
  );
}

const WEEKDAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", timeZone: "UTC" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

function Day({ date }: { date: string }) {
  const at = new Date(date);
  const weekend = [0, 6].includes(at.getUTCDay());
  return (
    <th scope="col" data-weekend={weekend ? "" : undefined} data-today={date === dateOf(now.value) ? "" : undefined}>
      <span class="muted">{WEEKDAY.format(at)}</span>
      <br />
      {DATE.format(at)}
    </th>
  );
}

function Room({ room, dates }: { room: RoomAnswer; dates: string[] }) {
  const byDate = new Map<string, CellAnswer[]>();
  for (const cell of room.cells) {
    const date = cell.begins.slice(0, 10);
    byDate.set(date, [...(byDate.get(date) ?? []), cell]);
  }
  return (
    <tr>
      <th scope="row" class="id" title={room.room}>
        <bdi>{room.room}</bdi>
        {!room.complete && <span class="muted small"> (more than are shown)</span>}
      </th>
      {dates.map((date) => (
        <td key={date}>
          <Cells cells={byDate.get(date) ?? []} />
        </td>
      ))}
    </tr>
  );
}

/** One night, or the intervals of one day: the smallest number that is free in any of them. */
function Cells({ cells }: { cells: CellAnswer[] }) {
  if (cells.length === 0)
    return (
      <span class="cell" data-never title="never held: the application knows how many there are">
        ·<span class="unseen">never held</span>
      </span>
    );
  const least = cells.reduce((a, b) => (b.available < a.available ? b : a));
  const over = cells.every((cell) => cell.closes !== null && Date.parse(cell.closes) <= now.value);
  const kind = over ? "over" : least.available === 0 ? "full" : least.held > 0 || least.consumed > 0 ? "part" : "free";
  const times = cells[0]?.begins.includes("T") ? `${cells.length} intervals were held; in the fullest: ` : "";
  const said = `${times}${number(least.available)} free of ${number(least.total)}, ${number(least.held)} held, ${number(least.consumed)} booked${over ? "; over" : ""}`;
  const text = (
    <>
      <span aria-hidden="true">{over ? "–" : number(least.available)}</span>
      <span class="cell-bar" aria-hidden="true">
        <i class="bar-consumed" style={{ width: `${percent(least.consumed, least.total)}%` }} />
        <i class="bar-held" style={{ width: `${percent(least.held, least.total)}%` }} />
      </span>
      <span class="unseen">{said}</span>
    </>
  );
  return (
    <a class="cell" data-kind={kind} title={said} href={linkWith("holds", { pool: least.pool })}>
      {text}
    </a>
  );
}
