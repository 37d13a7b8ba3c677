/** What a person can do with API keys: create, rotate, revoke. A key is shown once, by the dialog that made it. */
import { ask, segment } from "../api";
import { confirmAction, type Done, type Fields } from "../components/Dialog";
import { moment } from "../format";
import { signOut } from "../key";
import { me } from "../store";
import type { KeyAnswer, KeyInfo } from "../types";

type After = () => void;
const MEANING: Record<string, string> = {
  read: "It may read everything of this tenant, and change nothing.",
  hold: "It may read, and place and end holds.",
  admin: "It may do everything in this tenant, also create and revoke keys.",
};
const SCOPES: [string, string][] = [
  ["read", "read"],
  ["hold", "hold"],
  ["admin", "admin"],
];
const GRACE = "The old secret counts for this long, so that whoever uses it can change over; 0: not at all";

const words = (text: string | undefined): string[] => (text ?? "").split(/[\s,]+/).filter(Boolean);
const secretOf = (made: KeyAnswer): Done => ({
  said: "Here is the key.",
  secrets: [{ label: "API key", value: made.key }],
});
const subjectOf = (key: KeyInfo): string => `${key.name} (${key.id})`;
const mine = (key: KeyInfo): boolean => key.id === me.value?.id;
/** Whether somebody may be using it. */
const inUse = (key: KeyInfo): string =>
  key.used_at ? `It was used last at ${moment(key.used_at)}.` : "It is not known to have been used.";

/** What a limit takes away, and what a key of the default tenant has without one. */
function limitsOf(fields: Fields): string[] {
  const [pools, verbs] = [words(fields.pools), words(fields.verbs)];
  if (pools.length + verbs.length === 0)
    return me.value?.tenant === "" ? ["As a key of the default tenant it also reads what covers all tenants."] : [];
  const only = [
    ...(pools.length > 0 ? [`only pools that begin with ${pools.join(" or ")}`] : []),
    ...(verbs.length > 0 ? [`only the verbs ${verbs.join(", ")}`] : []),
  ];
  return [`Of that, ${only.join(", and ")}. A limited key manages no keys, webhooks and sagas.`];
}

export function createKey(after: After): void {
  confirmAction({
    title: "New API key",
    verb: "Create",
    fields: [
      { name: "name", label: "Name", hint: "Who uses it, for example till or night-job" },
      { name: "scope", label: "Scope", options: SCOPES },
      { name: "ttl", label: "Valid for", hint: "For example 30d; empty: until it is revoked", required: false },
      {
        name: "pools",
        label: "Only pools that begin with",
        hint: "Several with spaces; empty: all",
        longest: 11_000,
        required: false,
      },
      { name: "verbs", label: "Only these verbs", hint: "Such as read hold confirm; empty: all", required: false },
    ],
    effect: (fields) => [
      `A key for ${me.value?.tenant ? `tenant ${me.value.tenant}` : "the default tenant"} is created, and shown once. ${MEANING[fields.scope ?? ""] ?? ""}`,
      ...limitsOf(fields),
    ],
    act: async ({ name, scope, ttl, pools, verbs, reason }, op) => {
      const body = { name, scope, reason, pools: words(pools), verbs: words(verbs), ...(ttl ? { ttl } : {}) };
      return secretOf(await ask<KeyAnswer>("v1/keys", { method: "POST", op, body }));
    },
    after,
  });
}

export function rotateKey(key: KeyInfo, after: After): void {
  confirmAction({
    title: "Rotate this API key",
    verb: "Rotate",
    subject: subjectOf(key),
    fields: [{ name: "grace", label: "Grace", value: "5m", hint: GRACE }],
    effect: ({ grace }) => [
      grace === "0"
        ? "It gets a new secret, and the old one no longer counts."
        : `It gets a new secret. The old one counts for ${grace ?? ""} more.`,
      inUse(key),
      ...(mine(key) ? ["This is the key of this tab: sign in with the new one before the grace is over."] : []),
    ],
    act: async ({ grace, reason }, op) => {
      const body = { grace: grace === "0" ? 0 : grace, reason };
      return secretOf(await ask<KeyAnswer>(`v1/keys/${segment(key.id)}/rotate`, { method: "POST", op, body }));
    },
    after,
  });
}

export function revokeKey(key: KeyInfo, after: After): void {
  confirmAction({
    title: "Revoke this API key",
    verb: "Revoke",
    danger: true,
    subject: subjectOf(key),
    effect: () => [
      "Every request with it is refused from now on, on other servers within a second or two. This cannot be reversed.",
      inUse(key),
      ...(mine(key) ? ["This is the key of this tab: you are signed out."] : []),
    ],
    act: async ({ reason }, op) => {
      await ask<KeyInfo>(`v1/keys/${segment(key.id)}`, { method: "DELETE", op, body: { reason } });
      if (mine(key)) signOut();
      return "Key revoked.";
    },
    after,
  });
}
