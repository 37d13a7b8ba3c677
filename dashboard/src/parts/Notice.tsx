/** Empty and broken states: what is the matter, and what to do about it. */
import type { ComponentChildren } from "preact";
import { Problem } from "../api";
import { forgetKey } from "../key";

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

export function Waiting({ what }: { what: string }) {
  return (
    <div class="notice" aria-busy="true">
      <p class="muted">Reading {what}…</p>
    </div>
  );
}

/** A "no", in words that help. */
export function Broken({ error, again }: { error: unknown; again?: () => void }) {
  const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
  return (
    <Notice title={titleOf(problem)} tone="bad">
      <p>{adviceOf(problem)}</p>
      <p class="muted">
        <code>{problem.reason}</code> {problem.message}
      </p>
      {problem.status === 403 && (
        <button type="button" class="button" onClick={forgetKey}>
          Use another key
        </button>
      )}
      {again && problem.status !== 403 && (
        <button type="button" class="button" onClick={again}>
          Try again
        </button>
      )}
    </Notice>
  );
}

function titleOf(problem: Problem): string {
  if (problem.status === 0) return "The server cannot be reached";
  if (problem.status === 400) return "That was not understood";
  if (problem.status === 403) return "This key may not do that";
  if (problem.status === 404) return "There is nothing here";
  if (problem.status === 410) return "It was here once";
  return "That did not work";
}

export function adviceOf(problem: Problem): string {
  switch (problem.reason) {
    case "unreachable":
      return "Is it running? This page comes back by itself as soon as it answers.";
    case "operator_only":
      return "This tells of all tenants: it needs a key of the default tenant.";
    case "scope_too_small":
      return "It needs a key of a larger scope. Whoever runs the server can make one.";
    case "hold_retired":
      return "The hold ended longer ago than holds are kept. The journal still has its history.";
    case "hold_not_found":
    case "pool_not_found":
      return "It may have been removed, or it belongs to another tenant.";
    case "below_in_use":
      return "More than that is held or consumed right now. Choose a larger total, or release holds first.";
    case "invalid_request":
      return "Something in it is not as it must be.";
    case "saga_ended":
      return "Somebody has ended it the other way meanwhile.";
    case "saga_busy":
      return "It is being worked on. Look again in a little while.";
    case "version_conflict":
      return "It has moved on meanwhile. Look again.";
    case "not_owner":
      return "The owner token is not the one of this hold.";
    default:
      return problem.effect === "unknown"
        ? "It may or may not have happened. Trying again is safe: it is done once at most."
        : "Nothing was changed.";
  }
}
