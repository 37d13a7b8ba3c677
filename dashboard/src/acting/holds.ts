/** What a person can do with holds: place, confirm, extend, release, return. One form per verb. */
import { ask, segment } from "../api";
import { serverNow } from "../clock";
import { moment, number } from "../format";
import { confirmAction, type ActionForm, type Done, type Fields, type FieldSpec } from "../components/Dialog";
import { may } from "../store";
import type { HoldAnswer, HoldNow, PoolAnswer } from "../types";
import { counted, offeredOf, readLines, toWhom, type Line } from "./line";

type After = () => void;
const MOST = Number.MAX_SAFE_INTEGER;

/** Whoever has the token acts as the owner; an admin may act without it, by force. */
function ownerField(): FieldSpec {
  const hint = may("admin")
    ? "Leave empty to act by force, which the journal records"
    : "Returned when the hold was placed";
  return { name: "token", label: "Token", type: "password", hint, required: !may("admin") };
}

/** The body that all verbs of a hold share. */
function bodyOf(fields: Fields): Record<string, unknown> {
  const token = fields.token ?? "";
  return { reason: fields.reason, ...(token === "" ? { force: true } : { token }) };
}

const forced = (fields: Fields): string[] =>
  (fields.token ?? "") === "" ? ["The owner did not ask for this: the journal records it as forced."] : [];

/** A saga ends its hold itself. */
function ofSaga(hold: HoldAnswer): string[] {
  const saga = (hold.metadata as { saga?: unknown }).saga;
  return typeof saga === "string" ? [`This hold belongs to saga ${saga}: it is better to end the saga.`] : [];
}

/** Some of the units can be chosen if there is one leg. */
function unitsField(hold: HoldAnswer, most: number): FieldSpec[] {
  if (hold.legs.length !== 1 || most < 2) return [];
  return [
    {
      name: "quantity",
      label: "Units",
      type: "number",
      min: 1,
      max: most,
      required: false,
      hint: `Empty: all ${number(most)}`,
    },
  ];
}

const chosen = (fields: Fields, most: number): number =>
  fields.quantity ? Math.min(Number(fields.quantity), most) : most;
const quantityOf = (fields: Fields): { quantity?: number } =>
  fields.quantity ? { quantity: Number(fields.quantity) } : {};

const sum = (hold: HoldAnswer, units: (leg: HoldAnswer["legs"][number]) => number): number =>
  hold.legs.reduce((total, leg) => total + units(leg), 0);

/** The units that become free, by pool, if `count` of the hold's are given up. */
function freed(
  hold: HoldAnswer,
  units: (leg: HoldAnswer["legs"][number]) => number,
  count: number,
): Map<string, number> {
  const [only] = hold.legs;
  if (hold.legs.length === 1 && only) return new Map([[only.pool, count]]);
  return new Map(hold.legs.map((leg) => [leg.pool, units(leg)]));
}

const linesOf =
  (hold: HoldAnswer) =>
  (signal: AbortSignal): Promise<Line[]> =>
    readLines(
      hold.legs.map((leg) => leg.pool),
      signal,
    );

/** One change of a hold that exists. */
async function change(hold: HoldAnswer, verb: string, body: unknown, op: string): Promise<HoldNow> {
  return ask(`v1/holds/${segment(hold.id)}/${verb}`, { method: "POST", op, body });
}

/** A claim is confirmed for somebody: nobody could find it by its owner otherwise. */
const entityField = (hold: HoldAnswer): FieldSpec =>
  hold.legs.some((leg) => leg.pool.startsWith("~claim/"))
    ? { name: "entity", label: "Entity", hint: "To whom the key belongs from now on, such as user:7" }
    : { name: "entity", label: "Entity", hint: "Such as order:9; kept with the hold", required: false };

export function confirmHold(hold: HoldAnswer, after: After): void {
  const held = sum(hold, (leg) => leg.held);
  confirmAction<Line[]>({
    title: "Confirm this hold",
    verb: "Confirm",
    subject: hold.id,
    fields: [...unitsField(hold, held), entityField(hold), ownerField()],
    facts: linesOf(hold),
    effect: (fields, lines) => {
      const count = chosen(fields, held);
      const rest = held - count;
      const gets =
        rest > 0
          ? offeredOf(
              lines,
              freed(hold, (leg) => leg.held, rest),
            )
          : 0;
      return [
        `${counted(count, "unit becomes", "units become")} consumed, and the hold no longer expires.`,
        ...(rest > 0 ? [`The other ${number(rest)} become available again${toWhom(gets)}.`] : []),
        ...forced(fields),
        ...ofSaga(hold),
      ];
    },
    act: async (fields, op) => {
      const entity = fields.entity ? { entity: fields.entity } : {};
      await change(hold, "confirm", { ...bodyOf(fields), ...quantityOf(fields), ...entity }, op);
      return "Hold confirmed.";
    },
    after,
  });
}

export function releaseHold(hold: HoldAnswer, after: After): void {
  if (hold.state === "waiting") return removeFromLine(hold, after);
  const held = sum(hold, (leg) => leg.held);
  confirmAction<Line[]>({
    title: "Release this hold",
    verb: "Release",
    danger: true,
    subject: hold.id,
    fields: [...unitsField(hold, held), ownerField()],
    facts: linesOf(hold),
    effect: (fields, lines) => {
      const count = chosen(fields, held);
      const gets = offeredOf(
        lines,
        freed(hold, (leg) => leg.held, count),
      );
      return [
        `${counted(count, "unit becomes", "units become")} available at once${toWhom(gets)}.`,
        count === held ? "The owner can no longer confirm." : `The owner keeps ${number(held - count)}.`,
        ...forced(fields),
        ...ofSaga(hold),
      ];
    },
    act: async (fields, op) => {
      await change(hold, "release", { ...bodyOf(fields), ...quantityOf(fields) }, op);
      return "Hold released.";
    },
    after,
  });
}

function removeFromLine(hold: HoldAnswer, after: After): void {
  const [leg] = hold.legs;
  confirmAction<Line[]>({
    title: "Remove from the line",
    verb: "Remove",
    danger: true,
    subject: hold.id,
    fields: [ownerField()],
    facts: linesOf(hold),
    effect: (fields, lines) => {
      const without = lines.map((line) => ({ ...line, waiting: line.waiting.filter((one) => one.id !== hold.id) }));
      const behind = without.flatMap((line) => line.waiting).filter((one) => (one.number ?? 0) > (hold.number ?? 0));
      return [
        `Number ${number(hold.number ?? 0)} gives up its place for ${counted(leg?.quantity ?? 0, "unit", "units")}, and is not offered any.`,
        `${counted(behind.length, "person", "people")} behind it ${behind.length === 1 ? "moves" : "move"} up${toWhom(offeredOf(without, new Map()))}.`,
        ...forced(fields),
      ];
    },
    act: async (fields, op) => {
      await change(hold, "release", bodyOf(fields), op);
      return "Removed from the line.";
    },
    after,
  });
}

const SECONDS: Record<string, number> = { "": 1, s: 1, m: 60, h: 3_600, d: 86_400 };

/** Seconds of a span such as 90s, 5m or 2h; null if it cannot be read here, which the server then tells. */
export function secondsOf(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([smhd]?)$/.exec(text.trim());
  return match ? Number(match[1]) * (SECONDS[match[2] ?? ""] ?? 1) : null;
}

export function extendHold(hold: HoldAnswer, after: After): void {
  const waits = hold.state === "waiting";
  confirmAction({
    title: waits ? "Let it wait longer" : "Extend this hold",
    verb: "Extend",
    subject: hold.id,
    fields: [
      { name: "by", label: "Extend by", value: "5m", hint: "Added to the current deadline, for example 90s, 5m or 2h" },
      ownerField(),
    ],
    effect: (fields) => {
      const by = secondsOf(fields.by ?? "");
      const until = by !== null && hold.deadline !== null ? Date.parse(hold.deadline) + by * 1_000 : null;
      const when = until === null ? "later" : `at ${moment(new Date(until).toISOString())}`;
      return [
        waits
          ? `Its wait ends ${when}, unless units are offered before.`
          : `It expires ${when}. Its units are kept from everyone else until then.`,
        ...forced(fields),
        ...ofSaga(hold),
      ];
    },
    act: async (fields, op) => {
      await change(hold, "extend", { ...bodyOf(fields), by: fields.by }, op);
      return "Hold extended.";
    },
    after,
  });
}

export const consumedOf = (hold: HoldAnswer): number => sum(hold, (leg) => leg.confirmed - leg.returned);

export function returnHold(hold: HoldAnswer, after: After): void {
  const consumed = consumedOf(hold);
  confirmAction<Line[]>({
    title: "Return units of this hold",
    verb: "Return",
    danger: true,
    subject: hold.id,
    fields: [...unitsField(hold, consumed), ownerField()],
    facts: linesOf(hold),
    effect: (fields, lines) => {
      const count = chosen(fields, consumed);
      const gets = offeredOf(
        lines,
        freed(hold, (leg) => leg.confirmed - leg.returned, count),
      );
      return [
        `${counted(count, "consumed unit becomes", "consumed units become")} available again${toWhom(gets)}.`,
        ...forced(fields),
      ];
    },
    act: async (fields, op) => {
      await change(hold, "return", { ...bodyOf(fields), ...quantityOf(fields) }, op);
      return "Units returned.";
    },
    after,
  });
}

export function placeHold(pool: PoolAnswer, after: After): void {
  const path = `v1/pools/${segment(pool.id)}`;
  const form: ActionForm<PoolAnswer> = {
    title: "Place a hold",
    verb: "Place",
    subject: pool.id,
    fields: [
      { name: "quantity", label: "Units", type: "number", min: 1, max: MOST, value: "1" },
      { name: "ttl", label: "For how long", value: "5m", hint: "For example 90s, 5m or 2h" },
      { name: "entity", label: "Entity", hint: "Such as order:9; kept with the hold", required: false },
      { name: "account", label: "Account", hint: "Counts against its limit", required: pool.per_account !== null },
    ],
    facts: (signal) => ask(path, { signal }),
    effect: (fields, now) => placed(fields, now),
    act: async ({ quantity, ttl, entity, account, reason }, op): Promise<Done> => {
      const body = { pool: pool.id, quantity: Number(quantity), ttl, reason, ...(entity ? { entity } : {}) };
      const held: HoldNow = await ask("v1/holds", {
        method: "POST",
        op,
        body: account ? { ...body, account } : body,
      });
      const secrets = [
        { label: "Hold", value: held.id },
        { label: "Token", value: held.token ?? "" },
      ];
      return { said: "Hold placed.", secrets };
    },
    after,
  };
  confirmAction(form);
}

function placed(fields: Fields, pool: PoolAnswer): string[] {
  const count = Number(fields.quantity ?? 0);
  const seconds = secondsOf(fields.ttl ?? "");
  const until = seconds === null ? "" : ` until ${moment(new Date(serverNow() + seconds * 1_000).toISOString())}`;
  if (count > pool.bookable)
    return [
      pool.waiting > 0
        ? `It will be refused: ${counted(pool.waiting, "person waits", "people wait")} in line.`
        : `It will be refused: ${number(pool.bookable)} of ${number(pool.total)} can be held.`,
    ];
  return [
    `${number(count)} of ${counted(pool.bookable, "free unit is", "free units are")} held${until}.`,
    "Whoever has the token, which is shown once, confirms or releases the hold.",
  ];
}
