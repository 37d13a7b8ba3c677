/** A list that the server gives in pages: the first one, and as many more as were asked for, read anew together. */
import { useSignal } from "@preact/signals";
import { useFetched, type Reading } from "./useFetched";

export interface Paged<T> {
  items: T[];
  /** Where the next page begins; null at the end. */
  next: string | null;
}

/** How many pages are shown at most: all of them are read again after a change. */
const MOST = 20;

export interface Pages<T> {
  read: Reading<Paged<T>>;
  /** Shows one more page; null if there is none, or too much is shown already. */
  more: (() => void) | null;
}

export function usePages<T>(
  of: string,
  page: (after: string, signal: AbortSignal) => Promise<Paged<T>>,
  when: () => void,
): Pages<T> {
  const wanted = useSignal(1);
  const read = useFetched<Paged<T>>(
    of,
    async (signal) => {
      const items: T[] = [];
      let next: string | null = "";
      for (let count = 0; count < wanted.peek() && next !== null; count += 1) {
        const found: Paged<T> = await page(next, signal);
        items.push(...found.items);
        next = found.next;
      }
      return { items, next };
    },
    when,
  );
  const left = read.value !== null && read.value.next !== null && wanted.value < MOST;
  return { read, more: left ? () => ((wanted.value += 1), void read.refresh()) : null };
}
