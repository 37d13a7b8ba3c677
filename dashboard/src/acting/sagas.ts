/** What a person can do with sagas: end one by hand, or let it run again. */
import { ask, Problem, segment } from "../api";
import { confirmAction } from "../components/Dialog";
import type { HoldAnswer, SagaAnswer } from "../types";
import { counted } from "./line";

/** The ways to end a saga by hand, and what happens to its hold. */
const ENDS = {
  done: {
    title: "Mark this saga as completed",
    verb: "Mark as completed",
    said: "Use this if its effect has taken place: the saga does not run again, and its hold is confirmed.",
  },
  cancelled: {
    title: "Cancel this saga",
    verb: "Cancel saga",
    said: "Use this if its effect has not taken place: the saga does not run again, and its hold is released.",
  },
};

const pathOf = (saga: SagaAnswer): string => `v1/sagas/${segment(saga.id)}`;

/** The hold of a saga, if it has one that is still kept. */
const holdOf =
  (saga: SagaAnswer) =>
  async (signal: AbortSignal): Promise<HoldAnswer | null> => {
    try {
      return saga.hold === null ? null : await ask<HoldAnswer>(`v1/holds/${segment(saga.hold)}`, { signal });
    } catch (error) {
      if (error instanceof Problem && (error.status === 404 || error.status === 410)) return null;
      throw error;
    }
  };

/** What the saga holds now. */
function heldBy(hold: HoldAnswer | null): string {
  const units = hold?.legs.reduce((sum, leg) => sum + leg.held, 0) ?? 0;
  if (hold === null || hold.state !== "held") return `It holds nothing${hold ? `: its hold is ${hold.state}` : ""}.`;
  return `It holds ${counted(units, "unit", "units")} of ${hold.legs.map((leg) => leg.pool.replace(/^~/, "")).join(", ")}.`;
}

export function retrySaga(saga: SagaAnswer, after: () => void): void {
  confirmAction<HoldAnswer | null>({
    title: "Run this saga again",
    verb: "Run again",
    subject: saga.id,
    facts: holdOf(saga),
    effect: (_fields, hold) => [
      `It is no longer parked: the next recovery of a process that has its code continues it, with ${counted(saga.failures, "failure", "failures")} forgotten.`,
      "Its effect may run once more, under the same operation id.",
      heldBy(hold),
    ],
    act: async ({ reason }, op) => {
      const again: SagaAnswer = await ask(`${pathOf(saga)}/retry`, { method: "POST", op, body: { reason } });
      return `The saga is ${again.phase} again.`;
    },
    after,
  });
}

export function resolveSaga(saga: SagaAnswer, how: keyof typeof ENDS, after: () => void): void {
  const { title, verb, said } = ENDS[how];
  confirmAction<HoldAnswer | null>({
    title,
    verb,
    danger: how === "cancelled",
    dismiss: "Back",
    subject: saga.id,
    facts: holdOf(saga),
    effect: (_fields, hold) => [said, heldBy(hold), "Check the outcome before you decide."],
    act: async ({ reason }, op) => {
      const body = { how, reason };
      const ended: SagaAnswer = await ask(`${pathOf(saga)}/resolve`, { method: "POST", op, body });
      return `The saga is ${ended.phase}.`;
    },
    after,
  });
}
