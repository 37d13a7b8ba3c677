/** What can be changed from here. Everything is asked first, carries a retry key, and says what came of it. */
import { ask, segment } from "./api";
import { number } from "./format";
import { askFirst, Field } from "./parts/Dialog";
import type { Hold, Pool, Saga } from "./types";

export function releaseHold(hold: Hold, after: () => void): void {
  const units = hold.legs.reduce((sum, leg) => sum + leg.held, 0);
  askFirst({
    title: "Release this hold",
    verb: "Release",
    danger: true,
    body: (
      <>
        <p>
          {number(units)} {units === 1 ? "unit becomes" : "units become"} available at once, and whoever holds{" "}
          {units === 1 ? "it" : "them"} can no longer confirm. The journal will say that it was forced, and why.
        </p>
        <p>
          <code class="id">{hold.id}</code>
        </p>
        <Field name="reason" label="Reason" hint="kept in the journal" />
      </>
    ),
    act: async (fields, op) => {
      await ask(`v1/holds/${segment(hold.id)}/release`, {
        method: "POST",
        op,
        body: { force: true, reason: fields.reason },
      });
      after();
      return "Released.";
    },
  });
}

export function extendHold(hold: Hold, after: () => void): void {
  askFirst({
    title: "Extend this hold",
    verb: "Extend",
    body: (
      <>
        <p>Only its owner can: a longer hold keeps units from everybody else.</p>
        <Field name="by" label="By" value="5m" hint="from the present deadline: 90s, 5m, 2h" />
        <Field name="owner" label="Owner token" type="password" hint="given when the hold was placed" />
      </>
    ),
    act: async (fields, op) => {
      const body = { by: fields.by, owner: fields.owner };
      await ask(`v1/holds/${segment(hold.id)}/extend`, { method: "POST", op, body });
      after();
      return "Extended.";
    },
  });
}

/** How a person ends a saga: what it is called there, and what becomes of what it holds. */
const ENDS = {
  done: {
    title: "End this saga as done",
    verb: "End as done",
    said: "What it was to do has happened, and is not done again. What it holds is confirmed.",
  },
  cancelled: {
    title: "Cancel this saga",
    verb: "Cancel the saga",
    said: "What it was to do has not happened, and never will. What it holds becomes available at once.",
  },
};

export function resolveSaga(saga: Saga, how: keyof typeof ENDS, after: () => void): void {
  const { title, verb, said } = ENDS[how];
  askFirst({
    title,
    verb,
    danger: how === "cancelled",
    leave: "Leave it",
    body: (
      <>
        <p>{said} Only somebody who has looked can know that.</p>
        <p>
          <code class="id">{saga.id}</code>
        </p>
        <Field name="reason" label="Reason" hint="kept with the saga, and in the journal" />
      </>
    ),
    act: async (fields, op) => {
      const body = { how, reason: fields.reason };
      const ended: Saga = await ask(`v1/sagas/${segment(saga.id)}/resolve`, { method: "POST", op, body });
      after();
      return `The saga is ${ended.phase}.`;
    },
  });
}

export function resizePool(pool: Pool, after: () => void): void {
  const used = pool.held + pool.consumed;
  askFirst({
    title: "Change the total",
    verb: "Change",
    body: (
      <>
        <p>
          <code class="id">{pool.id}</code> has {number(pool.total)}, of which {number(used)}{" "}
          {used === 1 ? "is" : "are"} in use.
        </p>
        <Field
          name="total"
          label="New total"
          type="number"
          min={0}
          max={Number.MAX_SAFE_INTEGER}
          value={String(pool.total)}
        />
        <Field name="reason" label="Reason" hint="kept in the journal" required={false} />
      </>
    ),
    act: async (fields, op) => {
      const body = { total: Number(fields.total), reason: fields.reason || null };
      await ask(`v1/pools/${segment(pool.id)}`, { method: "PUT", op, body });
      after();
      return `The total is now ${number(body.total)}.`;
    },
  });
}

export function createPool(): void {
  askFirst({
    title: "New pool",
    verb: "Make it",
    body: (
      <>
        <Field name="id" label="Name" hint="such as show:42, or gpu/a100" />
        <Field name="total" label="Total" type="number" min={0} max={Number.MAX_SAFE_INTEGER} value="100" />
      </>
    ),
    act: async (fields, op) => {
      await ask("v1/pools", { method: "POST", op, body: { id: fields.id, total: Number(fields.total) } });
      return `Made ${fields.id}.`;
    },
  });
}

export function sweep(after: () => void): void {
  askFirst({
    title: "Sweep now",
    verb: "Sweep",
    body: (
      <>
        <p>
          Returns the units of holds whose deadline has passed. The server does so by itself; nothing waits for it to be
          right.
        </p>
        <Field name="limit" label="At most" type="number" min={1} max={10_000} value="500" hint="holds" />
      </>
    ),
    act: async (fields) => {
      const report: { expired: number; more: boolean } = await ask("v1/sweep", {
        method: "POST",
        body: { limit: Number(fields.limit) },
      });
      after();
      return `${number(report.expired)} expired${report.more ? "; more are due" : ""}.`;
    },
  });
}

export function verify(): void {
  askFirst({
    title: "Verify everything",
    verb: "Verify",
    body: (
      <p>Folds the whole journal and compares it with every stored row. It only reads, but it reads all there is.</p>
    ),
    act: async () => {
      const report: { ok: boolean; differences: string[] } = await ask("v1/verify", { method: "POST" });
      if (report.ok) return "Every row is exactly what the journal says.";
      return `${number(report.differences.length)} differences. The first: ${report.differences[0] ?? ""}`;
    },
  });
}
