/** The time until a hold's deadline, on the engine's clock: until it expires, or while it waits in line, until that ends. */
import { now } from "../clock";
import { moment, span } from "../format";
import type { HoldAnswer } from "../types";

/** Whether a hold has not ended: it has units, or waits for them. */
export const isLive = (hold: HoldAnswer): boolean => hold.state === "held" || hold.state === "waiting";

export function Countdown({ hold }: { hold: HoldAnswer }) {
  if (!isLive(hold)) return <span class="muted">{hold.ended_at ? moment(hold.ended_at) : ""}</span>;
  if (hold.deadline === null) return <span class="muted">no deadline</span>;
  const left = Date.parse(hold.deadline) - now.value;
  return (
    <span class="countdown" data-near={left < 15_000 ? "" : undefined} title={moment(hold.deadline)}>
      {left > 0 ? span(left) : "due"}
    </span>
  );
}

/** The remaining share of a hold's lifetime, 0 to 1; null if it has no deadline. */
export function lifeLeft(hold: HoldAnswer, at: number): number | null {
  const since = hold.held_at ?? hold.joined_at ?? null;
  if (!isLive(hold) || hold.deadline === null || since === null) return null;
  const [born, ends] = [Date.parse(since), Date.parse(hold.deadline)];
  return ends > born ? Math.max(0, Math.min(1, (ends - at) / (ends - born))) : 0;
}

export function State({ state }: { state: string }) {
  return (
    <span class="badge" data-kind={state}>
      {state}
    </span>
  );
}
