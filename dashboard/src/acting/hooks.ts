/** What a person can do with webhooks: create, test, rotate, replay, remove. A secret is shown once, by the dialog that made it. */
import { ask, segment } from "../api";
import { confirmAction, type Done } from "../components/Dialog";
import type { HookAnswer, ReplayStarted, TestAnswer } from "../types";
import { counted } from "./line";

type After = () => void;
const pathOf = (hook: HookAnswer): string => `v1/webhooks/${segment(hook.id)}`;
const words = (text: string | undefined): string[] => (text ?? "").split(/[\s,]+/).filter(Boolean);
const secretOf = (said: string, hook: HookAnswer): Done => ({
  said,
  secrets: [{ label: "Signing secret", value: hook.secret ?? "" }],
});
const parkedOf = (hook: HookAnswer): string => counted(hook.parked, "parked delivery", "parked deliveries");

export function createHook(after: After): void {
  confirmAction({
    title: "New webhook",
    verb: "Create",
    fields: [
      { name: "url", label: "URL", hint: "https, at a public address", longest: 2_048 },
      { name: "actions", label: "Actions", hint: "Such as hold.confirmed hold.expired; empty: all", required: false },
    ],
    effect: ({ actions }) => [
      `From now on ${words(actions).length ? `the entries of ${counted(words(actions).length, "action", "actions")}` : "all entries"} of this tenant's journal are sent there, with their metadata.`,
      "They are signed with a secret that is shown once.",
    ],
    act: async ({ url, actions, reason }, op) => {
      const body = { url, actions: words(actions), reason };
      return secretOf("Webhook created.", await ask<HookAnswer>("v1/webhooks", { method: "POST", op, body }));
    },
    after,
  });
}

export function testHook(hook: HookAnswer, after: After): void {
  confirmAction({
    title: "Send a test event",
    verb: "Send",
    subject: hook.url,
    reason: false,
    effect: () => ["One signed event of the type holdkit.test is sent now. It stops and resumes nothing."],
    act: async () => {
      const tried: TestAnswer = await ask(`${pathOf(hook)}/test`, { method: "POST" });
      const status = tried.status ? ` with status ${tried.status}` : "";
      const why = tried.why ? `: ${tried.why}` : "";
      return `The test event was answered${status} (${tried.outcome})${why}.`;
    },
    after,
  });
}

export function rotateHook(hook: HookAnswer, after: After): void {
  confirmAction({
    title: "Rotate the signing secret",
    verb: "Rotate",
    subject: hook.url,
    fields: [
      { name: "grace", label: "Grace", value: "24h", hint: "For so long events have both signatures; 0: not at all" },
    ],
    effect: ({ grace }) => [
      grace === "0"
        ? "Events are signed with a new secret at once: a receiver that does not have it refuses them."
        : `Events are signed with a new secret, and for ${grace ?? ""} with the old one too.`,
    ],
    act: async ({ grace, reason }, op) => {
      const body = { grace: grace === "0" ? 0 : grace, reason };
      return secretOf("Secret rotated.", await ask<HookAnswer>(`${pathOf(hook)}/rotate`, { method: "POST", op, body }));
    },
    after,
  });
}

export function replayHook(hook: HookAnswer, after: After): void {
  confirmAction<HookAnswer>({
    title: "Replay this webhook",
    verb: "Replay",
    subject: hook.url,
    facts: (signal) => ask(pathOf(hook), { signal }),
    effect: (_fields, now) => [
      ...(now.state === "stopped" ? ["It is resumed: what has happened since it was stopped is delivered."] : []),
      now.parked > 0
        ? `${parkedOf(now)} ${now.parked === 1 ? "is" : "are"} sent again, in the background and in no particular order.`
        : "Nothing is parked. The next attempt is made at once.",
    ],
    act: async ({ reason }, op) => {
      const replay: ReplayStarted = await ask(`${pathOf(hook)}/replay`, { method: "POST", op, body: { reason } });
      return `The replay of ${counted(replay.total, "delivery", "deliveries")} has begun.`;
    },
    after,
  });
}

export function removeHook(hook: HookAnswer, after: After): void {
  confirmAction<HookAnswer>({
    title: "Remove this webhook",
    verb: "Remove",
    danger: true,
    subject: hook.url,
    facts: (signal) => ask(pathOf(hook), { signal }),
    effect: (_fields, now) => [
      "Nothing is sent there any more. This cannot be reversed: a new webhook begins with what happens then.",
      ...(now.parked > 0 ? [`${parkedOf(now)} ${now.parked === 1 ? "is" : "are"} lost to the receiver.`] : []),
    ],
    act: async ({ reason }, op) => {
      await ask(pathOf(hook), { method: "DELETE", op, body: { reason } });
      return "Webhook removed.";
    },
    after,
  });
}
