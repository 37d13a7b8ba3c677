/** The changes that can be made from the dashboard. Each asks first, carries an idempotency key, and reports its result. */
import { ask, segment } from "./api";
import { number } from "./format";
import { confirmAction, Field } from "./components/Dialog";
import type { HoldAnswer, PoolAnswer, SagaAnswer, VerifyAnswer, VerifyJob } from "./types";

export function releaseHold(hold: HoldAnswer, after: () => void): void {
  const units = hold.legs.reduce((sum, leg) => sum + leg.held, 0);
  confirmAction({
    title: "Release this hold",
    verb: "Release",
    danger: true,
    body: (
      <>
        <p>
          {number(units)} {units === 1 ? "unit becomes" : "units become"} available at once, and the owner can no longer
          confirm. The journal records the release as forced, with your reason.
        </p>
        <p>
          <code class="id">{hold.id}</code>
        </p>
        <Field name="reason" label="Reason" hint="Recorded in the journal" />
      </>
    ),
    act: async (fields, op) => {
      await ask(`v1/holds/${segment(hold.id)}/release`, {
        method: "POST",
        op,
        body: { force: true, reason: fields.reason },
      });
      after();
      return "Hold released.";
    },
  });
}

export function extendHold(hold: HoldAnswer, after: () => void): void {
  confirmAction({
    title: "Extend this hold",
    verb: "Extend",
    body: (
      <>
        <p>Extending takes the owner token: a longer hold keeps its units from everyone else.</p>
        <Field name="by" label="Extend by" value="5m" hint="Added to the current deadline, for example 90s, 5m or 2h" />
        <Field name="owner" label="Owner token" type="password" hint="Returned when the hold was placed" />
      </>
    ),
    act: async (fields, op) => {
      const body = { by: fields.by, owner: fields.owner };
      await ask(`v1/holds/${segment(hold.id)}/extend`, { method: "POST", op, body });
      after();
      return "Hold extended.";
    },
  });
}

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
    body: (
      <>
        <p>{said} Check the outcome before you decide.</p>
        <p>
          <code class="id">{saga.id}</code>
        </p>
        <Field name="reason" label="Reason" hint="Recorded with the saga and in the journal" />
      </>
    ),
    act: async (fields, op) => {
      const body = { how, reason: fields.reason };
      const ended: SagaAnswer = await ask(`v1/sagas/${segment(saga.id)}/resolve`, { method: "POST", op, body });
      after();
      return `The saga is ${ended.phase}.`;
    },
  });
}

export function resizePool(pool: PoolAnswer, after: () => void): void {
  const used = pool.held + pool.consumed;
  confirmAction({
    title: "Change the total",
    verb: "Change",
    body: (
      <>
        <p>
          <code class="id">{pool.id}</code> has a total of {number(pool.total)}, with {number(used)} in use.
        </p>
        <Field
          name="total"
          label="New total"
          type="number"
          min={0}
          max={Number.MAX_SAFE_INTEGER}
          value={String(pool.total)}
        />
        <Field name="reason" label="Reason" hint="Recorded in the journal" required={false} />
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
  confirmAction({
    title: "New pool",
    verb: "Create",
    body: (
      <>
        <Field name="id" label="Name" hint="For example show:42 or gpu/a100" />
        <Field name="total" label="Total" type="number" min={0} max={Number.MAX_SAFE_INTEGER} value="100" />
      </>
    ),
    act: async (fields, op) => {
      await ask("v1/pools", { method: "POST", op, body: { id: fields.id, total: Number(fields.total) } });
      return `Pool ${fields.id} created.`;
    },
  });
}

export function sweep(after: () => void): void {
  confirmAction({
    title: "Sweep now",
    verb: "Sweep",
    body: (
      <>
        <p>
          A sweep records the expiry of holds whose deadline has passed. The server also does this by itself, and
          availability is correct either way.
        </p>
        <Field name="limit" label="Maximum number of holds" type="number" min={1} max={10_000} value="500" />
      </>
    ),
    act: async (fields) => {
      const report: { expired: number; more: boolean } = await ask("v1/sweep", {
        method: "POST",
        body: { limit: Number(fields.limit) },
      });
      after();
      return `${number(report.expired)} ${report.expired === 1 ? "hold" : "holds"} expired${report.more ? "; more are due" : ""}.`;
    },
  });
}

/** Milliseconds between two looks at a job. */
const LOOK = 500;

/** Starts the verification, and waits for it to end. */
async function verified(): Promise<VerifyAnswer> {
  let job: VerifyJob = await ask("v1/verify", { method: "POST" });
  while (job.ended_at === null) {
    await new Promise((done) => setTimeout(done, LOOK));
    job = await ask(`v1/jobs/${segment(job.id)}`);
  }
  if (job.result === null) throw new Error(job.problem?.detail ?? "The verification was cancelled.");
  return job.result;
}

export function verify(): void {
  confirmAction({
    title: "Verify all data",
    verb: "Verify",
    body: (
      <p>
        Replays the whole journal and compares the result with every stored row. It changes nothing, but reads
        everything.
      </p>
    ),
    act: async () => {
      const report = await verified();
      if (report.ok) return "Every row matches the journal.";
      return `${number(report.differences.length)} ${report.differences.length === 1 ? "difference" : "differences"} found. The first: ${report.differences[0] ?? ""}`;
    },
  });
}
