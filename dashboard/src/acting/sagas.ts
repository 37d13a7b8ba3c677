/** What a person can do with sagas: end one by hand. */
import { ask, segment } from "../api";
import { confirmAction } from "../components/Dialog";
import type { SagaAnswer } from "../types";

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

export function resolveSaga(saga: SagaAnswer, how: keyof typeof ENDS, after: () => void): void {
  const { title, verb, said } = ENDS[how];
  confirmAction({
    title,
    verb,
    danger: how === "cancelled",
    dismiss: "Back",
    subject: saga.id,
    effect: () => [said, "Check the outcome before you decide."],
    act: async ({ reason }, op) => {
      const body = { how, reason };
      const ended: SagaAnswer = await ask(`v1/sagas/${segment(saga.id)}/resolve`, { method: "POST", op, body });
      return `The saga is ${ended.phase}.`;
    },
    after,
  });
}
