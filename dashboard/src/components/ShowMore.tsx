/** The end of a list that comes in pages. */
import type { Pages } from "../usePages";

export function ShowMore<T>({ pages: { read, more } }: { pages: Pages<T> }) {
  if (more !== null)
    return (
      <p class="show-more">
        <button type="button" class="button small" onClick={more}>
          Show more
        </button>
      </p>
    );
  return read.value?.next ? <p class="muted small">There are more than are shown here.</p> : null;
}
