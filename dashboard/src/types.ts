/** The server's answers, as far as the dashboard reads them. The contract is docs/http.md. */

export interface Pool {
  id: string;
  total: number;
  held: number;
  consumed: number;
  /** Consumed units that belong to no hold that is still kept. */
  loose: number;
  available: number;
  over: boolean;
  version: number;
  fence: number;
  on_demand: boolean;
  archived: boolean;
}

export interface Leg {
  pool: string;
  quantity: number;
  held: number;
  confirmed: number;
  returned: number;
}

export interface Hold {
  id: string;
  state: "held" | "confirmed" | "released" | "expired";
  legs: Leg[];
  deadline_at: string | null;
  fence: number;
  entity: string | null;
  held_at: string;
  ended_at: string | null;
  reason: string | null;
  actor: string | null;
  correlation_id: string | null;
  metadata: Record<string, unknown>;
  version: number;
}

export interface Effect {
  pool: Pool;
  total: number;
  held: number;
  consumed: number;
  loose: number;
}

export interface Entry {
  position: { lane: number; seq: number };
  cursor: string;
  action: string;
  at: string;
  subject: string;
  actor: string | null;
  correlation_id: string | null;
  reason: string | null;
  op: string | null;
  forced: boolean;
  part: boolean;
  pools: Effect[];
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

export interface Page<T> {
  items: T[];
  next: string | null;
  server_time: string;
}

export interface Sums {
  pools: number;
  total: number;
  held: number;
  consumed: number;
  available: number;
  over: number;
  full: number;
}

export interface Summary {
  sums: Sums;
  complete: boolean;
  pools: Pool[];
  removed: string[];
  actions: Record<string, number>;
  reset: boolean;
  server_time: string;
}

export interface WhoAmI {
  id: string;
  scope: "read" | "hold" | "admin";
  tenant: string;
  operator: boolean;
  open: boolean;
  server_time: string;
}

export interface Durability {
  level: "process" | "local" | "synchronous" | "asynchronous_standby" | "unsafe";
  says: string;
  advice: string;
  standbys: { name: string; state: "synchronous" | "asynchronous" | "away" | "unknown" }[];
  settings: Record<string, string>;
}

export interface Stats {
  since: string;
  requests: number;
  done: Record<string, number>;
  refused: Record<string, number>;
  latency: { p50: number; p90: number; p99: number };
  batches: { count: number; commands: number; largest: number; sizes: number[] };
  queue: number;
  durability: Durability;
  /** Seconds by which the engine's clock is ahead of the server's machine. */
  clock_lag: number;
  sweeper: { running: boolean; sweeps: number; expired: number; lag: number };
  streams: number;
  in_work: number;
  server_time: string;
}

export interface Claim {
  id: string;
  key: string;
  state: Hold["state"];
  hold: string | null;
  deadline_at: string | null;
  entity: string | null;
}

export interface Item {
  id: string;
  state: "available" | "held" | "spent" | "missing";
  hold: string | null;
}

export interface Saga {
  id: string;
  name: string;
  phase: string;
  attempt: number;
  hold: string | null;
  failures: number;
  intent: unknown;
  error: { kind: string; message: string } | null;
  /** The reason an operator gave for ending it. */
  resolved: string | null;
  begun_at: string;
  since: string;
}

export interface VerifyReport {
  ok: boolean;
  differences: string[];
}

/** A long task of the server: the verification of the journal. */
export interface VerifyJob {
  id: string;
  state: "running" | "stopping" | "done" | "failed" | "cancelled";
  ended_at: string | null;
  result: VerifyReport | null;
  problem: { reason: string; detail: string } | null;
}
