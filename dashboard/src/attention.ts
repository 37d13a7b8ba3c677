/** What needs a person: parked sagas, failing webhooks, a sweeper that is behind, and differences that verifying found. */
import { computed, signal } from "@preact/signals";
import { ask, Problem, segment } from "./api";
import { link, linkWith } from "./route";
import { may, me, stream } from "./store";
import type { HookPage, JobPage, SagaPage, Stats, VerifyJob } from "./types";

export interface Concern {
  text: string;
  href: string;
}

const EVERY = 30_000;
/** Seconds by which a sweeper may be behind. */
const MOST_LAG = 10;
const found = signal<Record<string, Concern[] | null>>({});

/** Everything that needs a person, as far as this key may see it. */
export const concerns = computed<Concern[]>(() =>
  stream.down.value ? [] : Object.values(found.value).flatMap((list) => list ?? []),
);
/** What could not be read, or was read before the server was away: nothing may be said about it. */
export const unknown = computed<string[]>(() =>
  Object.entries(found.value).flatMap(([name, list]) => (list === null || stream.down.value ? [name] : [])),
);

const checks: [string, () => boolean, () => Promise<Concern[]>][] = [
  ["sagas", () => true, parkedSagas],
  ["webhooks", () => may("admin"), failingHooks],
  ["sweeper", () => me.value?.operator === true, lateSweeper],
  ["verify", () => may("admin"), differences],
];

export function watchConcerns(): () => void {
  const stop = stream.down.subscribe((down) => void (down || look())); // at once, and when the server is back
  const timer = setInterval(() => void look(), EVERY);
  return () => (clearInterval(timer), stop());
}

/** What the key may not see needs somebody else; what could not be read is not known. */
const none = (error: unknown): Concern[] | null => (error instanceof Problem && error.status === 403 ? [] : null);

export async function look(): Promise<void> {
  await Promise.all(
    checks.map(async ([name, allowed, check]) => {
      if (!allowed()) return;
      const list = await check().catch(none);
      found.value = { ...found.peek(), [name]: list };
    }),
  );
}

const counted = (count: number, one: string, more: string): string => `${count} ${count === 1 ? one : more}`;

async function parkedSagas(): Promise<Concern[]> {
  const page: SagaPage = await ask("v1/sagas", { query: { phase: "parked", limit: 100 } });
  const count = page.items.length;
  const text = `${page.next === null ? "" : "More than "}${counted(count, "saga is parked", "sagas are parked")}`;
  return count ? [{ text, href: linkWith("sagas", { show: "parked" }) }] : [];
}

async function failingHooks(): Promise<Concern[]> {
  const page: HookPage = await ask("v1/webhooks");
  const count = page.items.filter((hook) => hook.state !== "active" || hook.parked > 0).length;
  const text = counted(
    count,
    "webhook is failing or has parked deliveries",
    "webhooks are failing or have parked deliveries",
  );
  return count ? [{ text, href: link("webhooks") }] : [];
}

async function lateSweeper(): Promise<Concern[]> {
  const { sweeper }: Stats = await ask("v1/stats");
  if (!sweeper.running || sweeper.lag <= MOST_LAG) return [];
  return [{ text: `The sweeper is ${Math.round(sweeper.lag)} s behind`, href: link("health") }];
}

async function differences(): Promise<Concern[]> {
  const page: JobPage = await ask("v1/jobs");
  const last = page.items.find((job) => job.kind === "verify" && job.state === "done");
  if (!last) return [];
  const { result }: VerifyJob = await ask(`v1/jobs/${segment(last.id)}`);
  if (!result || result.ok) return [];
  const count = result.differences.length;
  const text = counted(count, "difference was found by Verify", "differences were found by Verify");
  return [{ text, href: link("health") }];
}
