/** What a person can do with pools: create, resize, archive, unarchive, remove, return loose units. One form per verb. */
import { ask, segment } from "../api";
import { number } from "../format";
import { confirmAction } from "../components/Dialog";
import { go } from "../route";
import { rootOf } from "../trees";
import type { PoolAnswer } from "../types";
import { counted, offered, readLines, toWhom, type Line } from "./line";

type After = () => void;
const MOST = Number.MAX_SAFE_INTEGER;

interface PoolFacts {
  pool: PoolAnswer;
  lines: Line[];
}

const pathOf = (pool: PoolAnswer): string => `v1/pools/${segment(pool.id)}`;

/** The pool as it is now, and its line. */
const factsOf =
  (pool: PoolAnswer) =>
  async (signal: AbortSignal): Promise<PoolFacts> => ({
    pool: await ask(pathOf(pool), { signal }),
    lines: await readLines([pool.id], signal),
  });

const inUse = (pool: PoolAnswer): number => pool.held + pool.consumed;

/** How many in its line get units if the pool has so many more. (A pool below another has no line, and its total frees nothing above.) */
const gets = ({ pool, lines }: PoolFacts, more: number, total?: number): number =>
  lines.reduce((sum, line) => sum + (line.pool.id === pool.id ? offered(line, more, total) : 0), 0);

export function createPool(): void {
  confirmAction({
    title: "New pool",
    verb: "Create",
    fields: [
      { name: "id", label: "Name", hint: "For example show:42 or gpu/a100" },
      { name: "total", label: "Total", type: "number", min: 0, max: MOST, value: "100" },
    ],
    effect: ({ total }) => [
      `A pool is created, and ${counted(Number(total ?? 0), "unit", "units")} of it can be held.`,
    ],
    act: async ({ id, total, reason }, op) => {
      await ask("v1/pools", { method: "POST", op, body: { id, total: Number(total), reason } });
      return `Pool ${id} created.`;
    },
  });
}

export function resizePool(pool: PoolAnswer, after: After): void {
  confirmAction<PoolFacts>({
    title: "Change the total",
    verb: "Change",
    subject: pool.id,
    fields: [{ name: "total", label: "New total", type: "number", min: 0, max: MOST, value: String(pool.total) }],
    facts: factsOf(pool),
    effect: (fields, facts) => {
      const [now, total] = [facts.pool, Number(fields.total ?? 0)];
      const said = `The total is ${number(now.total)}, with ${number(inUse(now))} in use.`;
      const more = total - now.total;
      if (more === 0) return [said];
      if (more > 0)
        return [
          said,
          `${counted(more, "more unit becomes", "more units become")} available${toWhom(gets(facts, more, total))}.`,
        ];
      if (total < inUse(now)) return [said, `It will be refused: ${number(inUse(now))} are in use.`];
      return [said, `${counted(-more, "unit goes", "units go")} away, of those that are free.`];
    },
    act: async (fields, op) => {
      const total = Number(fields.total);
      await ask(pathOf(pool), { method: "PUT", op, body: { total, reason: fields.reason } });
      return `The total is now ${number(total)}.`;
    },
    after,
  });
}

export function archivePool(pool: PoolAnswer, after: After): void {
  confirmAction<PoolFacts>({
    title: "Archive this pool",
    verb: "Archive",
    danger: true,
    subject: pool.id,
    facts: factsOf(pool),
    effect: (_fields, { pool: now }) => [
      "It grants no new holds from now on. This can be reversed.",
      ...(now.held > 0
        ? [`The ${counted(now.held, "held unit", "held units")} can still be confirmed or released.`]
        : []),
      ...(now.waiting > 0
        ? [
            `The ${counted(now.waiting, "person", "people")} in line ${now.waiting === 1 ? "is" : "are"} offered nothing more.`,
          ]
        : []),
    ],
    act: async ({ reason }, op) => {
      await ask(`${pathOf(pool)}/archive`, { method: "POST", op, body: { reason } });
      return "Pool archived.";
    },
    after,
  });
}

export function unarchivePool(pool: PoolAnswer, after: After): void {
  confirmAction<PoolFacts>({
    title: "Unarchive this pool",
    verb: "Unarchive",
    subject: pool.id,
    facts: factsOf(pool),
    effect: (_fields, facts) => {
      const lines = facts.lines.map((line) => ({ ...line, pool: { ...line.pool, archived: false } }));
      return [
        `It grants holds again: ${counted(facts.pool.available, "unit is", "units are")} available${toWhom(gets({ ...facts, lines }, 0))}.`,
      ];
    },
    act: async ({ reason }, op) => {
      await ask(`${pathOf(pool)}/unarchive`, { method: "POST", op, body: { reason } });
      return "Pool unarchived.";
    },
    after,
  });
}

export function removePool(pool: PoolAnswer): void {
  confirmAction<PoolFacts>({
    title: "Remove this pool",
    verb: "Remove",
    danger: true,
    subject: pool.id,
    facts: factsOf(pool),
    effect: (_fields, { pool: now }) => {
      const why = [
        ...(inUse(now) > 0 ? [`${counted(inUse(now), "unit is", "units are")} in use`] : []),
        ...(now.waiting > 0 ? [`${counted(now.waiting, "person waits", "people wait")} in line`] : []),
        ...(now.children > 0 ? [`${counted(now.children, "pool is", "pools are")} below it`] : []),
      ];
      if (why.length > 0) return [`It will be refused: ${why.join(", and ")}. You can archive it instead.`];
      return ["It is removed for good. The journal keeps its history."];
    },
    act: async ({ reason }, op) => {
      await ask(pathOf(pool), { method: "DELETE", op, body: { reason } });
      go("pools");
      return `Pool ${pool.id} removed.`;
    },
  });
}

export function returnLoose(pool: PoolAnswer, after: After): void {
  confirmAction<PoolFacts>({
    title: "Return loose units",
    verb: "Return",
    danger: true,
    subject: pool.id,
    fields: [{ name: "quantity", label: "Units", type: "number", min: 1, max: pool.loose, value: String(pool.loose) }],
    facts: factsOf(pool),
    effect: (fields, { lines }) => {
      const count = Number(fields.quantity ?? 0);
      const root = rootOf(pool.id);
      const get = lines.reduce((sum, line) => sum + (line.pool.id === root ? offered(line, count) : 0), 0);
      return [
        `${counted(count, "consumed unit becomes", "consumed units become")} available again${toWhom(get)}.`,
        "The holds that consumed them are no longer kept: make sure that nobody uses them.",
      ];
    },
    act: async ({ quantity, reason }, op) => {
      const body = { quantity: Number(quantity), reason };
      await ask(`${pathOf(pool)}/free`, { method: "POST", op, body });
      return "Units returned.";
    },
    after,
  });
}
