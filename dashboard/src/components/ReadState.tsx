/**
 * The four states of everything that is read from the server, drawn the same way in every view:
 *
 * - *loading*: no answer yet;
 * - *failed*: no answer, and the last read failed; says why, and what to do;
 * - *stale*: there is an answer, but it may no longer be true: the last read failed, or the connection that reports changes is
 *   down. Says since when, by the engine's clock, and why;
 * - *current*: the answer, or the view's words for an empty one. An empty answer that is stale is never shown as empty: what
 *   was not there then may be there now.
 */
import type { ComponentChildren } from "preact";
import { Problem } from "../api";
import { now } from "../clock";
import { clock, moment, span } from "../format";
import { stream } from "../store";
import type { Fetched, Reading } from "../useFetched";
import { ErrorNotice, Loading, Notice, reasonOf } from "./Notice";

interface Props<T> {
  read: Reading<T>;
  /** Follows "Loading": "the holds". */
  what: string;
  isEmpty?: (value: T) => boolean;
  /** Shown for an empty answer. */
  empty?: ComponentChildren;
  /** Part of a page that already says when the connection is down: only a failed read of its own is reported here. */
  part?: boolean;
  children: (value: T) => ComponentChildren;
}

export function ReadState<T>({ read, what, isEmpty, empty, part = false, children }: Props<T>) {
  const { value } = read;
  if (value === null)
    return read.error ? <Failed error={read.error} retry={() => void read.refresh()} /> : <Loading what={what} />;
  const since = staleSince(read);
  const none = isEmpty?.(value) ?? false;
  if (since === null) return <>{none ? empty : children(value)}</>;
  return (
    <>
      {(!part || read.error !== null) && <Stale since={since} error={read.error} />}
      {none ? <WasEmpty since={since} /> : children(value)}
    </>
  );
}

/** A refusal, such as "not found", may be out of date like any other answer. */
function Failed({ error, retry }: { error: unknown; retry: () => void }) {
  const old = stream.down.value && stream.heard.value > 0 && error instanceof Problem && error.status !== 0;
  return (
    <>
      {old && <Stale since={stream.heard.value} />}
      <ErrorNotice error={error} retry={retry} />
    </>
  );
}

/** Since when an answer may be out of date, in milliseconds on the engine's clock; null if it is current. */
export function staleSince({ error, at }: Fetched<unknown>): number | null {
  if (error !== null) return at;
  return stream.down.value ? Math.max(at, stream.heard.value) : null;
}

/** One line above what may be out of date. Screen readers hear it once, without the age, which changes every second. */
export function Stale({ since, error = null }: { since: number; error?: unknown }) {
  const at = new Date(since).toISOString();
  return (
    <p class="stale" data-stale>
      <span role="status">
        Out of date since <time dateTime={at}>{clock(at)}</time>: {error === null ? stream.why.value : reasonOf(error)}.
      </span>{" "}
      <span class="muted" title={moment(at)}>
        {span(Math.max(0, now.value - since))} ago
      </span>
    </p>
  );
}

function WasEmpty({ since }: { since: number }) {
  return (
    <Notice title="Not known">
      <p class="muted">
        There was nothing to show at {clock(new Date(since).toISOString())}. What has happened since is not known until
        the server answers.
      </p>
    </Notice>
  );
}
