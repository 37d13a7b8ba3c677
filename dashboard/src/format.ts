/** Numbers, times and durations as people read them. */

const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value: number): string => whole.format(value);
/** In compact notation from 100,000 on. */
export const compact = (value: number): string =>
  Math.abs(value) < 100_000 ? whole.format(value) : short.format(value);
export const percent = (part: number, of: number): number =>
  of > 0 ? Math.min(100, (100 * part) / of) : part > 0 ? 100 : 0;

const two = (value: number): string => String(value).padStart(2, "0");

/** 4:07, 1:02:03, 3 d 4 h. */
export function span(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1_000));
  if (seconds >= 86_400) return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor((seconds % 3_600) / 60)];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

export function clock(text: string, fraction = false): string {
  const date = new Date(text);
  const plain = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fraction ? `${plain}.${String(date.getMilliseconds()).padStart(3, "0")}` : plain;
}

export const moment = (text: string): string =>
  new Date(text).toLocaleString("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });

/** Date and time in columns: 2026-11-16 23:31:14. */
export function stamp(text: string): string {
  const date = new Date(text);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(text)}`;
}

export const milliseconds = (seconds: number): string =>
  seconds === 0 ? "–" : seconds >= 1 ? `${seconds.toFixed(1)} s` : `${+(seconds * 1_000).toPrecision(2)} ms`;

/** The end of a generated hold id: the part that differs between two of them. */
export const shortId = (id: string): string => (/^[0-9a-f-]{32,36}$/.test(id) ? `…${id.slice(-12)}` : id);
