/** Empty, loading and error states: what is wrong, and what to do about it. */
import type { ComponentChildren } from "preact";
import { LATE, Problem } from "../api";
import { signOut } from "../key";

interface Props {
  title: string;
  children?: ComponentChildren;
  tone?: "plain" | "bad";
}

export function Notice({ title, children, tone = "plain" }: Props) {
  return (
    <div class="notice" data-tone={tone} role={tone === "bad" ? "alert" : undefined}>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div class="notice" aria-busy="true">
      <p class="muted">Loading {what}…</p>
    </div>
  );
}

/** Why something failed, as part of a sentence. */
export const reasonOf = (error: unknown): string => (error instanceof Problem ? error.message : String(error));

/** An error, with advice. */
export function ErrorNotice({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
  return (
    <Notice title={titleOf(problem)} tone="bad">
      {adviceOf(problem) !== "" && <p>{adviceOf(problem)}</p>}
      <p class="muted">
        <code>{problem.reason}</code> {problem.message}
      </p>
      {problem.status === 403 && (
        <button type="button" class="button" onClick={signOut}>
          Use another key
        </button>
      )}
      {retry && problem.status !== 403 && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </Notice>
  );
}

function titleOf(problem: Problem): string {
  if (problem.status === 0) return "Server unreachable";
  if (problem.status === 400) return "Invalid request";
  if (problem.status === 403) return "Not allowed with this API key";
  if (problem.status === 404) return "Not found";
  if (problem.status === 410) return "No longer available";
  return "Request failed";
}

/** What to do about it; of a change also what has happened. */
export function adviceOf(problem: Problem, change = false): string {
  switch (problem.reason) {
    case "unreachable":
    case LATE:
      return "Check that the server is running. This page reconnects by itself.";
    case "operator_only":
      return "This view covers all tenants and needs an API key of the default tenant.";
    case "key_limited":
      return "This needs an API key without this limit. Ask the operator of the server for one.";
    case "scope_too_small":
      return "This needs an API key with a wider scope. Ask the operator of the server for one.";
    case "hold_retired":
      return "The hold ended longer ago than the retention period. The journal still has its history.";
    case "below_in_use":
      return "More units than that are held or consumed. Choose a larger total, or release holds first.";
    case "invalid_request":
      return "Check the values and try again.";
    case "saga_ended":
      return "Another operator has already ended this saga the other way.";
    case "saga_busy":
      return "The saga is running at the moment. Try again in a little while.";
    case "version_conflict":
      return "It was changed in the meantime. Reload and try again.";
    case "not_owner":
      return "The token does not belong to this hold.";
    default:
      if (problem.status === 404) return "It may have been removed, or it belongs to another tenant.";
      if (!change) return "";
      return problem.effect === "unknown"
        ? "The change may or may not have been made. Trying again is safe: it cannot be made twice."
        : "Nothing was changed.";
  }
}
