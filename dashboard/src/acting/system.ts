/** What a person can do with the whole system: sweep and verify. Neither changes anything that would need a reason. */
import { ask, segment } from "../api";
import { look } from "../attention";
import { number } from "../format";
import { confirmAction } from "../components/Dialog";
import type { VerifyAnswer, VerifyJob } from "../types";

export function sweep(after: () => void): void {
  confirmAction({
    title: "Sweep now",
    verb: "Sweep",
    reason: false,
    fields: [{ name: "limit", label: "Maximum number of holds", type: "number", min: 1, max: 10_000, value: "500" }],
    effect: () => [
      "A sweep records the expiry of holds whose deadline has passed. The server also does this by itself, and availability is correct either way.",
    ],
    act: async (fields) => {
      const report: { expired: number; more: boolean } = await ask("v1/sweep", {
        method: "POST",
        body: { limit: Number(fields.limit) },
      });
      return `${number(report.expired)} ${report.expired === 1 ? "hold" : "holds"} expired${report.more ? "; more are due" : ""}.`;
    },
    after,
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
    reason: false,
    effect: () => [
      "Replays the whole journal and compares the result with every stored row. It changes nothing, but reads everything.",
    ],
    act: async () => {
      const report = await verified();
      if (report.ok) return "Every row matches the journal.";
      return `${number(report.differences.length)} ${report.differences.length === 1 ? "difference" : "differences"} found. The first: ${report.differences[0] ?? ""}`;
    },
    after: () => void look(), // what it found needs a person
  });
}
