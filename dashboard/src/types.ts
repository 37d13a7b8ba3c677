/** The server's answers. Written by tools/gen_types.py from the OpenAPI document: run `make gen`, do not edit. */

/** The total per window, for each client. */
export interface AllowanceBody {
  total: number;
  /** second, minute, hour, day, week, month, year, or a length such as 90s */
  per: string;
  zone?: string | null;
}

/** One answer per command, in order. */
export interface BatchAnswer {
  answers: CommandAnswer[];
  server_time: string;
}

/** The transactions of this process. */
export interface Batches {
  count: number;
  commands: number;
  largest: number;
  sizes: number[];
}

/** A set of budgets. */
export interface BudgetAnswer {
  name: string;
  budgets: Record<string, AllowanceBody[]>;
  server_time: string;
}

/** Sets of budgets in order of name. */
export interface BudgetPage {
  items: BudgetAnswer[];
  next: string | null;
  server_time: string;
}

/** The last event of a stream that the server ends. */
export interface Bye {
  /** why, if the stream may not go on: the API key no longer counts */
  reason?: string | null;
}

/** Rooms in order of name; `next` is the `after` of the next page. */
export interface CalendarPage {
  items: RoomAnswer[];
  next: string | null;
  server_time: string;
}

/** One room in one night, or in one interval of time, with units that were held. */
export interface CellAnswer {
  /** its date; or the time at which it begins, in UTC */
  begins: string;
  pool: string;
  total: number;
  /** held until a deadline: of a budget, the estimates */
  held: number;
  /** confirmed: of a budget, the actual amounts */
  consumed: number;
  /** 0 once it is over */
  available: number;
  /** when it is over, and can no longer be held */
  closes: string | null;
}

/** A claim: the current one of its key, or the last one. */
export interface ClaimAnswer {
  id: string;
  key: string;
  type: string;
  value: string;
  state: State;
  hold: string | null;
  deadline: string | null;
  entity: string | null;
  held_at: string | null;
  ended_at: string | null;
  correlation_id: string | null;
  fence: number;
  version: number;
  /** whether its hold has other legs too */
  combined: boolean;
  /** the tenant, empty for the default one; only where several tenants are shown */
  tenant?: string | null;
  replayed?: boolean;
  server_time: string;
}

/** Claims. */
export interface ClaimPage {
  items: ClaimAnswer[];
  next: string | null;
  server_time: string;
}

/** The result of one command of a batch: a hold, a pool, or a refusal. */
export interface CommandAnswer {
  status: "done" | "refused";
  hold?: HoldNow | null;
  pool?: PoolNow | null;
  reason?: string | null;
  detail?: string | null;
  transient?: boolean | null;
  replayed?: boolean;
  facts?: Facts | null;
}

/** Connections of this process; the last two count since its start. */
export interface Connections {
  open: number;
  limit: number;
  /** Answered with 503, because there were too many. */
  refused: number;
  /** Closed because their client read nothing. */
  dropped: number;
}

/** A cursor in the journal. */
export interface CursorAnswer {
  cursor: string;
  /** changes when the journal continues from another state: after a promotion, restore or import */
  generation: string;
  server_time: string;
}

/** What a deletion has ended and removed. */
export interface DeletedAnswer {
  tenant: string;
  /** Released or returned. */
  holds: number;
  pools: number;
  records: number;
  keys: number;
}

/** A job that deletes a tenant. */
export interface DeletionJob {
  id: string;
  /** what it does, such as verify */
  kind: string;
  state: "cancelled" | "done" | "failed" | "running" | "stopping";
  /** steps done so far */
  done: number;
  /** steps in all, as far as is known; 0 before the first step */
  total: number;
  began_at: string;
  ended_at: string | null;
  /** of a job that is done: the document that its kind names */
  result: DeletedAnswer | null;
  /** of a job that failed */
  problem: JobProblem | null;
  server_time: string;
}

/** Webhook deliveries of this process. */
export interface Deliveries {
  delivered: number;
  failed: number;
  parked: number;
  /** Attempts by outcome. */
  outcomes: Record<string, number>;
  /** Attempts under way. */
  attempts: number;
  /** Attempts that wait for a slot. */
  waiting: number;
  /** Host names being resolved. */
  lookups: number;
}

/** One attempt at a delivery. */
export interface DeliveryAnswer {
  at: string;
  /** The id of the event, which the receiver gets as `webhook-id`. */
  event: string;
  kind: "first" | "replay" | "retry" | "test";
  /** `delivered`, `gone` (410), `rejected` (any other status), or what went wrong, such as `connect_timed_out`. */
  outcome: string;
  status?: number | null;
  seconds: number;
  why?: string | null;
}

/** The last attempts of a webhook, the newest first. */
export interface DeliveryPage {
  items: DeliveryAnswer[];
  server_time: string;
}

/** One stored row, or one entry, that differs from what the journal says. */
export interface Difference {
  table: string;
  key: string;
  field: string;
  stored: string;
  expected: string;
}

/** The free space of the data's disk, in bytes. */
export interface Disk {
  /** low: less than 5 % is free; full: less than `min_free` is, and nothing new is stored */
  state: "full" | "low" | "ok";
  free: number;
  total: number;
  min_free: number;
}

/** What a done answer survives, as the store is set. */
export interface Durability {
  level: "asynchronous_standby" | "local" | "process" | "synchronous" | "unsafe";
  /** `level` as a sentence. */
  says: string;
  /** What to set, where that would make it better. */
  advice: string;
  standbys: Standby[];
  /** The settings that it follows from, as they are in force. */
  settings: Record<string, string>;
}

/** A pool after an entry, and how its counters changed. What does not apply to lines, accounts and trees is left out. */
export interface Effect {
  pool: PoolAnswer;
  total: number;
  held: number;
  consumed: number;
  /** of the tally, if there is one; else of the pool */
  loose: number;
  waiting?: number;
  children?: number;
  /** of the tally */
  used?: number;
  /** what the account uses after the entry; with 0 used, it is gone */
  tally?: TallyAnswer | null;
  /** of a claim, its key: the pool is named by a hash; not in webhooks */
  label?: string | null;
}

/** A journal entry. */
export interface EntryAnswer {
  /** the entry's position in the journal: the same text for the same entry, without order; for an operator's key, lane and number, such as 0.17 */
  position: string;
  cursor: string;
  action:
    | "pool.created"
    | "pool.resized"
    | "pool.removed"
    | "pool.archived"
    | "pool.unarchived"
    | "pool.repaired"
    | "pool.returned"
    | "pool.limited"
    | "hold.waiting"
    | "hold.offered"
    | "hold.held"
    | "hold.extended"
    | "hold.partly_confirmed"
    | "hold.partly_released"
    | "hold.confirmed"
    | "hold.released"
    | "hold.expired"
    | "hold.returned"
    | "hold.reassigned"
    | "hold.retired"
    | "leg.returned"
    | "record.put"
    | "limits.changed"
    | "journal.baseline"
    | "journal.erased"
    | "command.refused";
  at: string;
  subject: string;
  /** who made the change, as the caller says */
  actor: string | null;
  /** the id of the API key that asked, whoever it names as actor */
  client_id: string | null;
  correlation_id: string | null;
  reason: string | null;
  op: string | null;
  forced: boolean;
  part: boolean;
  pools: Effect[];
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  /** of `command.refused` */
  refused?: RefusedAnswer | null;
  /** the W3C trace context (`traceparent`) of the call that asked, if it was recorded */
  trace?: string | null;
  /** the tenant, empty for the default one; only where several tenants are shown */
  tenant?: string | null;
}

/** Entries in journal order; `next` is the `after` of the next page. Of a search from the end: newest first, and `next` is the `before` of the next page. A search looks at a bounded part of the journal, so a page may be empty and still have a `next`. */
export interface EntryPage {
  items: EntryAnswer[];
  /** a cursor: read on at once; null at the end of the journal */
  next: string | null;
  /** where the page ended: whoever comes back later for new entries passes it as `after` */
  cursor: string;
  server_time: string;
}

/** A job that erases a person's data. */
export interface EraseJob {
  id: string;
  /** what it does, such as verify */
  kind: string;
  state: "cancelled" | "done" | "failed" | "running" | "stopping";
  /** steps done so far */
  done: number;
  /** steps in all, as far as is known; 0 before the first step */
  total: number;
  began_at: string;
  ended_at: string | null;
  /** of a job that is done: the document that its kind names */
  result: ErasedAnswer | null;
  /** of a job that failed */
  problem: JobProblem | null;
  server_time: string;
}

/** The parts that an erasure has replaced, or would replace. */
export interface Erased {
  /** What stands there now. */
  stub: string;
  /** Holds that have lost their personal fields; retired ones too. */
  holds: number;
  /** Journal entries that were rewritten. */
  entries: number;
  /** Pools of claims, or with the entity, that were rewritten. */
  pools: number;
  /** Recorded answers that were rewritten. */
  operations: number;
  /** Records that were replaced. */
  records: number;
  /** Accounts that erased holds still name, because pools count them: erase them by name. */
  accounts: string[];
  /** Records, as kind/id, that still tell of the person because they are in use: up to 100 of them. End or change them, and erase again. */
  in_use: string[];
  dry_run: boolean;
  /** Whether an earlier run had begun it and was interrupted; the numbers are those of this run. */
  resumed: boolean;
}

/** What an erasure has replaced, or would replace. */
export interface ErasedAnswer {
  /** whether anything names the value */
  found: boolean;
  erased: Erased;
  server_time: string;
}

/** Which faces of your tenant have stored anything. */
export interface FacesAnswer {
  claims: boolean;
  items: boolean;
  sections: boolean;
  calendars: boolean;
  budgets: boolean;
  rates: boolean;
  resources: boolean;
  sagas: boolean;
  accounts: boolean;
  server_time: string;
}

/** The facts behind a refusal. What does not apply is left out. */
export interface Facts {
  /** what the refusal is about: the id of a pool, hold, key or record */
  subject?: string;
  in_use?: number | null;
  now?: string | null;
  /** in seconds */
  max_lifetime?: number | null;
  ended_at?: string | null;
  deadline?: string | null;
  left?: number | null;
  version?: number | null;
  /** how many wait in the line */
  waiting?: number | null;
  /** the hold's number in the line */
  number?: number | null;
  claim?: string;
  state?: string;
  /** seconds until the deadline */
  remaining?: number | null;
  taken?: string[];
  hold?: string;
  /** what the hold was confirmed for */
  entity?: string;
  requested?: number;
  loose?: number;
  consumed?: number;
  shortfalls?: ShortfallAnswer[];
  available?: number;
  total?: number;
  /** by the account, or of a quota by the tenant */
  used?: number;
  /** the most that one account may have of the pool */
  limit?: number;
  budgets?: string[];
  /** seconds to wait before a retry */
  retry_after?: number | null;
  /** of an invalid request: the field */
  field?: string | null;
  /** of an invalid request: a stable word for what is wrong */
  code?: string | null;
}

/** Batches that the database itself decided, by a guard, in one round trip; only PostgreSQL has them. */
export interface Guards {
  batches: number;
  commands: number;
  /** Commands that passed the guard. The others took the ordinary way in the same call. */
  passed: number;
  /** Units of expired holds that these batches returned, by number of legs. */
  returned: number;
  /** Commands that did not pass, by cause. */
  misses: Record<string, number>;
}

/** The first event of a stream of entries. */
export interface Hello {
  server_time: string;
  generation: string;
}

/** A hold, without its token. */
export interface HoldAnswer {
  id: string;
  state: State;
  legs: LegAnswer[];
  deadline: string | null;
  fence: number;
  entity: string | null;
  /** null while it waits in line */
  held_at: string | null;
  ended_at: string | null;
  reason: string | null;
  actor: string | null;
  correlation_id: string | null;
  metadata: Record<string, unknown>;
  version: number;
  /** for whom, such as customer:7: counted in the tallies of the pools */
  account?: string | null;
  /** of a hold that waited in line: when it joined */
  joined_at?: string | null;
  /** its number in that line */
  number?: number | null;
  /** seconds for which the offer stands, or stood */
  offer_ttl?: number | null;
  /** the tenant, empty for the default one; only where several tenants are shown */
  tenant?: string | null;
}

/** One hold, and the result of the call. */
export interface HoldNow {
  id: string;
  state: State;
  legs: LegAnswer[];
  deadline: string | null;
  fence: number;
  entity: string | null;
  /** null while it waits in line */
  held_at: string | null;
  ended_at: string | null;
  reason: string | null;
  actor: string | null;
  correlation_id: string | null;
  metadata: Record<string, unknown>;
  version: number;
  /** for whom, such as customer:7: counted in the tallies of the pools */
  account?: string | null;
  /** of a hold that waited in line: when it joined */
  joined_at?: string | null;
  /** its number in that line */
  number?: number | null;
  /** seconds for which the offer stands, or stood */
  offer_ttl?: number | null;
  /** the tenant, empty for the default one; only where several tenants are shown */
  tenant?: string | null;
  position?: string | null;
  uncovered?: Record<string, number> | null;
  token?: string | null;
  ticket?: string | null;
  replayed?: boolean;
  server_time: string;
}

/** Holds in order of id, from either end. `next` is the `after` of the next page (of a page with `before`: the `before` of the page in front of it), None at the end. A request looks at a bounded number of holds, so a page may be empty and still have a `next`. */
export interface HoldPage {
  items: HoldAnswer[];
  next: string | null;
  server_time: string;
}

/** A webhook; its secret only in the answer that creates or rotates it. */
export interface HookAnswer {
  id: string;
  url: string;
  actions: string[];
  /** `failing`: the last attempt failed; `stopped`: nothing is delivered until a replay. */
  state: "active" | "failing" | "stopped";
  /** Why it is failing or stopped. */
  why?: string | null;
  /** Since when it is. */
  since?: string | null;
  /** When the failing delivery is tried again; if there is none, it was parked, and the next event is tried. */
  next_attempt_at?: string | null;
  parked: number;
  /** The running or the last one. */
  replay?: ReplayAnswer | null;
  /** Whether its signing secret is encrypted where it is stored. */
  encrypted: boolean;
  /** Until then events are also signed with the secret before the last rotation. */
  old_secret_until?: string | null;
  secret?: string | null;
  server_time: string;
}

/** The webhooks of your tenant. */
export interface HookPage {
  items: HookAnswer[];
  server_time: string;
}

/** One item, as it was when it was read. */
export interface Item {
  id: string;
  state: "available" | "confirmed" | "held" | "missing";
  /** The id of the hold that holds or has confirmed it; never its token. */
  hold: string | null;
  /** Whether the token that was given is that hold's; None if no token was given. */
  yours: boolean | null;
}

/** Items in the requested order. */
export interface ItemList {
  items: Item[];
  server_time: string;
}

/** Items in order of id; `next` is the `after` of the next page. */
export interface ItemPage {
  items: Item[];
  next: string | null;
  server_time: string;
}

/** A job of any kind. */
export interface JobAnswer {
  id: string;
  /** what it does, such as verify */
  kind: string;
  state: "cancelled" | "done" | "failed" | "running" | "stopping";
  /** steps done so far */
  done: number;
  /** steps in all, as far as is known; 0 before the first step */
  total: number;
  began_at: string;
  ended_at: string | null;
  /** of a job that is done: the document that its kind names */
  result: unknown | null;
  /** of a job that failed */
  problem: JobProblem | null;
  server_time: string;
}

/** The jobs of your tenant on this server, the latest first; without their results. */
export interface JobPage {
  items: JobAnswer[];
  server_time: string;
}

/** Why a job failed. */
export interface JobProblem {
  reason: string;
  detail: string;
}

/** The stored cursor of a named follower. */
export interface KeptCursor {
  name: string;
  cursor: string;
  /** the id of the process that stored it, if it gave one */
  follower: string;
  version: number;
  /** when it was stored */
  at: string;
  /** the generation of the journal in which the cursor was made */
  generation: string;
  server_time: string;
}

/** An API key that was just created or rotated: `key` is shown only this once. */
export interface KeyAnswer {
  info: KeyInfo;
  key: string;
  server_time: string;
}

/** An API key without its secret. */
export interface KeyInfo {
  id: string;
  tenant: string;
  scope: "admin" | "hold" | "read";
  name: string;
  state: "active" | "expired" | "revoked";
  made_at: string | null;
  expires_at: string | null;
  revoked_at: string | null;
  /** when it was used last: on other servers up to a quarter of an hour later; null: not known to be used */
  used_at: string | null;
  /** prefixes of the pools that it is limited to; empty: all pools */
  pools: string[];
  /** the verbs that it is limited to; empty: all of its scope */
  verbs: string[];
}

/** The API keys of your tenant. */
export interface KeyPage {
  items: KeyInfo[];
  server_time: string;
}

/** Seconds from a request to its answer: upper bounds of the buckets that contain these quantiles. */
export interface Latency {
  p50: number;
  p90: number;
  p99: number;
}

/** One leg of a hold. */
export interface LegAnswer {
  pool: string;
  /** what the pool is called: its id, an item's id, `inn/double/2027-07-03` of a calendar; of a claim `type:value` where the request named the key, and where holds are read or listed, else the claim's id */
  name: string;
  quantity: number;
  held: number;
  confirmed: number;
  returned: number;
}

/** The limits that are stored with the data; intervals in seconds. */
export interface LimitsAnswer {
  limits: Record<string, number | null>;
  version: number;
  server_time: string;
}

/** Who waits in a line, in order: the first is next. `next` is the `after` of the next page. */
export interface LinePage {
  items: HoldAnswer[];
  next: number | null;
  server_time: string;
}

/** The process is alive. */
export interface Live {
  status: string;
}

/** Seconds from lock to commit, of the transactions in which this process has locked and committed: meanwhile no other transaction can change the same pools. A call in your own transaction (`tx=`) is not among them, because only you know when that ends; nor is a guarded batch on PostgreSQL, which locks and commits in one round trip, so that only the server could tell. */
export interface LockTimes {
  bounds: number[];
  /** Transactions by bucket: longer than the bound before, at most this bound; the last number counts all the others. */
  counts: number[];
  /** The sum over all of them. */
  seconds: number;
}

/** Names in order; `next` is the `after` of the next page. */
export interface NamePage {
  items: string[];
  next: string | null;
  server_time: string;
}

/** Sums over all pools, and the fullest pools. */
export interface Overview {
  sums: Sums;
  complete: boolean;
  fullest: PoolAnswer[];
  server_time: string;
}

/** A delivery that failed after all attempts. */
export interface ParkedAnswer {
  /** The id of the event. */
  id: string;
  at: string;
  why: string;
  /** The event as it was sent; null if it is too large to store: a replay then reads it from the journal. */
  event: unknown;
}

/** The parked deliveries of a webhook. */
export interface ParkedPage {
  items: ParkedAnswer[];
  next: string | null;
  server_time: string;
}

/** Where a saga is; `done` and `aborted` are its ends, `parked` waits for an operator. */
export type Phase = "aborted" | "done" | "finalizing" | "parked" | "reserving";

/** A place in line. */
export interface PlaceAnswer {
  hold: string;
  /** waiting; or what became of the hold */
  state: State;
  /** 1 is next; exact to 1,000, and 1001 for whoever is farther behind; null if it does not wait */
  place: number | null;
  /** while it waits, when that ends */
  deadline: string | null;
  server_time: string;
}

/** A pool as it is now; expired legs count as returned. */
export interface PoolAnswer {
  id: string;
  total: number;
  held: number;
  consumed: number;
  /** consumed units that belong to no hold that is still kept, and to no account */
  loose: number;
  available: number;
  /** what a hold could take now: nothing while somebody waits, and no more than the pools above leave; in a journal entry, in the answer of a change, and for an API key that may not read all of these, without them */
  bookable: number;
  /** holds that wait in its line */
  waiting: number;
  over: boolean;
  version: number;
  fence: number;
  on_demand: boolean;
  archived: boolean;
  /** the most units that one account may wait for, hold and have confirmed together; null: no limit */
  per_account: number | null;
  /** strict: units are offered in the order of the line; skip: to whoever fits of the first 100, so that large requests may wait for ever */
  line: "skip" | "strict";
  /** pools directly below it */
  children: number;
  /** when its window ends; left out if it has none */
  closes?: string | null;
  /** the tenant, empty for the default one; only where several tenants are shown */
  tenant?: string | null;
}

/** Some pools over one window. */
export interface PoolHistories {
  /** Seconds per interval. */
  step: number;
  /** When each interval begins. */
  at: string[];
  pools: PoolHistory[];
  /** Whether statistics are recorded: not where tables are distributed. */
  recording: boolean;
  server_time: string;
}

/** One pool: a value per interval. The counters are those at its end; the others count what happened in it. */
export interface PoolHistory {
  pool: string;
  total: (number | null)[];
  held: (number | null)[];
  consumed: (number | null)[];
  /** The most units that were held and consumed together. */
  peak: (number | null)[];
  /** Holds that were granted units. */
  granted: (number | null)[];
  granted_units: (number | null)[];
  confirmed_units: (number | null)[];
  released_units: (number | null)[];
  expired_units: (number | null)[];
  /** Requests to this server that were refused, in the last six hours at most, since it started. */
  refused: (number | null)[];
  /** Units that these had asked for and did not get. */
  refused_units: (number | null)[];
  /** The refusals of the whole window that are known, by reason. */
  reasons: Record<string, number>;
}

/** One pool, and the time of the answer. */
export interface PoolNow {
  id: string;
  total: number;
  held: number;
  consumed: number;
  /** consumed units that belong to no hold that is still kept, and to no account */
  loose: number;
  available: number;
  /** what a hold could take now: nothing while somebody waits, and no more than the pools above leave; in a journal entry, in the answer of a change, and for an API key that may not read all of these, without them */
  bookable: number;
  /** holds that wait in its line */
  waiting: number;
  over: boolean;
  version: number;
  fence: number;
  on_demand: boolean;
  archived: boolean;
  /** the most units that one account may wait for, hold and have confirmed together; null: no limit */
  per_account: number | null;
  /** strict: units are offered in the order of the line; skip: to whoever fits of the first 100, so that large requests may wait for ever */
  line: "skip" | "strict";
  /** pools directly below it */
  children: number;
  /** when its window ends; left out if it has none */
  closes?: string | null;
  /** the tenant, empty for the default one; only where several tenants are shown */
  tenant?: string | null;
  server_time: string;
}

/** Pools in order of id; `next` is the `after` of the next page. */
export interface PoolPage {
  items: PoolAnswer[];
  next: string | null;
  server_time: string;
}

/** What an account uses of one pool. */
export interface PoolUsageAnswer {
  pool: string;
  /** units waited for, held, or confirmed and not returned */
  used: number;
  /** the most units that one account may wait for, hold and have confirmed together; null: no limit */
  limit: number | null;
}

/** What an account uses, in order of pool; `next` is the `after` of the next page. */
export interface PoolUsagePage {
  items: PoolUsageAnswer[];
  next: string | null;
  server_time: string;
}

/** The answer to a request that did not succeed. */
export interface ProblemAnswer {
  /** what the refusal is about: the id of a pool, hold, key or record */
  subject?: string;
  in_use?: number | null;
  now?: string | null;
  /** in seconds */
  max_lifetime?: number | null;
  ended_at?: string | null;
  deadline?: string | null;
  left?: number | null;
  version?: number | null;
  /** how many wait in the line */
  waiting?: number | null;
  /** the hold's number in the line */
  number?: number | null;
  claim?: string;
  state?: string;
  /** seconds until the deadline */
  remaining?: number | null;
  taken?: string[];
  hold?: string;
  /** what the hold was confirmed for */
  entity?: string;
  requested?: number;
  loose?: number;
  consumed?: number;
  shortfalls?: ShortfallAnswer[];
  available?: number;
  total?: number;
  /** by the account, or of a quota by the tenant */
  used?: number;
  /** the most that one account may have of the pool */
  limit?: number;
  budgets?: string[];
  /** seconds to wait before a retry */
  retry_after?: number | null;
  /** of an invalid request: the field */
  field?: string | null;
  /** of an invalid request: a stable word for what is wrong */
  code?: string | null;
  type: string;
  /** for customers: it names no id and no number */
  title: string;
  status: number;
  /** for developers; the text may change */
  detail: string;
  /** a stable word for programs */
  reason: string;
  /** none: this attempt did nothing; unknown: retry with the same Idempotency-Key to find out */
  effect: "none" | "unknown";
  /** identifies the request in the server's log */
  request_id: string;
  server_time: string;
  /** of a refusal: whether the same request may succeed later */
  transient?: boolean;
  /** whether this is the recorded answer of an earlier request */
  replayed?: boolean;
  /** the methods that the path supports */
  allow?: string;
  /** of a full quota: what there is too much of */
  what?: string;
  allowed?: number;
  /** of a lost cursor: whether what follows it has left the journal for an archive */
  archived?: boolean;
}

/** What a tenant may store; null: no bound. */
export interface Quota {
  bytes?: number | null;
  rows?: number | null;
}

/** The server is ready. */
export interface Ready {
  status: string;
  durability: "asynchronous_standby" | "local" | "process" | "synchronous" | "unsafe";
  clock_lag: number;
  /** low: less than 5 % is free; full: nothing new is stored; null: the disk is not watched */
  disk: "full" | "low" | "ok" | null;
}

/** A record. */
export interface RecordAnswer {
  kind: string;
  id: string;
  body: string;
  version: number;
  at: string;
  replayed?: boolean;
}

/** One record; null if it was removed. */
export interface RecordNow {
  record: RecordAnswer | null;
  server_time: string;
}

/** Records in order of id; `next` is the `after` of the next page. */
export interface RecordPage {
  items: RecordAnswer[];
  next: string | null;
  server_time: string;
}

/** What a refused command asked for, and why it was refused. */
export interface RefusedAnswer {
  /** `hold`, `confirm`, `resize_pool`, …: its type, as in a batch */
  command: string;
  /** why it was refused */
  reason: string;
  legs: RefusedLeg[];
  /** what the refusal names, if it is not the entry's subject: such as the pool that is missing */
  subject?: string | null;
  /** the number that caused the refusal */
  found?: number | null;
  entity?: string | null;
  account?: string | null;
}

/** Units of one pool that a refused command asked for, or that were missing above such a pool. */
export interface RefusedLeg {
  pool: string;
  /** what the pool is called: its id, a claim's key, an item's id */
  name: string;
  quantity: number;
  /** of a pool that fell short: what there was, of which total */
  available?: number | null;
  total?: number | null;
}

/** How far the replay of a webhook is; it runs in the background. */
export interface ReplayAnswer {
  state: "ended" | "running";
  began_at: string;
  ended_at?: string | null;
  /** Deliveries that were parked when it began. */
  total: number;
  /** Deliveries that were accepted since. */
  taken: number;
  /** Deliveries that failed again, and remain parked. */
  failed: number;
}

/** The replay that was begun, or the one that is running already. */
export interface ReplayStarted {
  state: "ended" | "running";
  began_at: string;
  ended_at?: string | null;
  /** Deliveries that were parked when it began. */
  total: number;
  /** Deliveries that were accepted since. */
  taken: number;
  /** Deliveries that failed again, and remain parked. */
  failed: number;
  server_time: string;
}

/** One key and window of a resource. */
export interface ResourceAnswer {
  /** as JSON text */
  key: string;
  /** as JSON text; null if the resource has none */
  window: string;
  pool: string;
  /** the capacity as the application answered it last */
  total: number;
  held: number;
  consumed: number;
  available: number;
  closes: string | null;
}

/** Resources in order of pool id; `next` is the `after` of the next page. */
export interface ResourcePage {
  items: ResourceAnswer[];
  next: string | null;
  server_time: string;
}

/** One room of a calendar, in order of time. What is missing was never held: the application knows how many there are. */
export interface RoomAnswer {
  /** a name that was too long for the id of a pool is given as # and its hash */
  room: string;
  cells: CellAnswer[];
  /** whether these are all cells of the range: at most 1,000 are given */
  complete: boolean;
}

/** A saga: its phase, its lease and its last error. */
export interface SagaAnswer {
  id: string;
  name: string;
  phase: Phase;
  attempt: number;
  epoch: number;
  failures: number;
  hold: string | null;
  error: SagaError | null;
  intent: unknown;
  result: unknown;
  /** the reason an operator gave for ending it */
  resolved: string | null;
  begun_at: string;
  since: string;
  leased_until: string | null;
  server_time: string;
}

/** What went wrong last: class and message of an exception, and nothing else of it. */
export interface SagaError {
  kind: string;
  message: string;
}

/** What one journal entry says of a saga. */
export interface SagaEventAnswer {
  at: string;
  phase: Phase;
  attempt: number;
  failures: number;
  hold: string | null;
  error: SagaError | null;
  resolved: string | null;
  actor: string | null;
  /** the id of the API key that asked */
  client_id: string | null;
  reason: string | null;
  op: string | null;
}

/** What happened to a saga, in order. Renewals of its lease are left out. */
export interface SagaHistory {
  items: SagaEventAnswer[];
  /** whether there is more than this */
  more: boolean;
  server_time: string;
}

/** Sagas in order of id. */
export interface SagaPage {
  items: SagaAnswer[];
  next: string | null;
  server_time: string;
}

/** What was found, in groups. What an API key may not read is left out of it. */
export interface SearchAnswer {
  /** those whose id begins with the text, then those that contain it */
  pools: PoolAnswer[];
  /** those whose id begins with it */
  holds: HoldAnswer[];
  /** those that begin with it */
  entities: string[];
  /** those that begin with it */
  accounts: string[];
  /** that of this key, type:value */
  claims: ClaimAnswer[];
  /** those whose id begins with it */
  items: Item[];
  /** whether the names of all pools were searched; one request searches some thousands */
  complete: boolean;
  server_time: string;
}

/** An item with a place in a section. */
export interface Seat {
  id: string;
  section: string;
  row: string | number;
  /** What is written on the seat. */
  number: number | string;
  /** Where it is in its row: seats whose positions differ by 1 are neighbours. Default: the number, if it is an integer. */
  position?: number | null;
  /** The smaller, the better. Default: by row in natural order, then by the distance from the middle of the row. */
  rank?: number | null;
  /** Seats of another kind, such as wheelchair places, are only found if they are asked for. */
  kind?: string;
}

/** Seats in order of row and position; `next` is the `after` of the next page. */
export interface SeatPage {
  seats: Seat[];
  next: string | null;
  server_time: string;
}

/** The seats are no longer in the map of the section. */
export interface SeatsRemoved {
  section: string;
  server_time: string;
}

/** The server that answers, over one window: the last six hours at most, since it started. */
export interface ServerHistory {
  step: number;
  at: string[];
  requests: (number | null)[];
  /** Answers with a status from 500 on. */
  errors: (number | null)[];
  /** The longest queue that was seen in the interval. */
  queue: (number | null)[];
  /** Seconds: the upper bound of the bucket that contains this quantile of the interval's answers. */
  p50: (number | null)[];
  p90: (number | null)[];
  p99: (number | null)[];
  recording: boolean;
  server_time: string;
}

/** One leg that fell short. */
export interface ShortfallAnswer {
  pool: string;
  /** what the pool is called: its id, a key, an item's id, `inn/double/2027-07-03` */
  name: string;
  requested: number;
  available: number;
  /** of the pool; of an account, its limit */
  total: number;
  /** of a key or an item: it is confirmed, so it does not become available by itself */
  confirmed?: boolean;
  /** of an account: what it uses already */
  used?: number;
}

/** A standby server that receives the store's write-ahead log, or did. */
export interface Standby {
  name: string;
  /** `synchronous`: commits wait for it, alone or with others. `away`: it is expected, and not connected. `unknown`: this role may not see it. */
  state: "asynchronous" | "away" | "synchronous" | "unknown";
}

/** The state of a hold; all but `WAITING` and `HELD` are terminal. */
export type State = "confirmed" | "expired" | "held" | "released" | "waiting";

/** Statistics since the server started. */
export interface Stats {
  since: string;
  requests: number;
  done: Record<string, number>;
  refused: Record<string, number>;
  latency: Latency;
  batches: Batches;
  lock_times: LockTimes;
  guards: Guards;
  queue: number;
  durability: Durability;
  clock_lag: number;
  sweeper: Sweeper;
  webhooks: Deliveries;
  streams: number;
  in_work: number;
  /** Tenants whose storage quota is full, as far as this process knows. */
  full_quotas: number;
  /** None if the disk is not watched: PostgreSQL on another machine, or data in memory. */
  disk: Disk | null;
  /** None if the application is mounted in another server. */
  connections: Connections | null;
  server_time: string;
}

/** What your tenant has stored, and what it may store. */
export interface StorageAnswer {
  usage: StoredRows;
  quota: Quota;
  server_time: string;
}

/** What a tenant has stored. */
export interface StoredRows {
  pools: number;
  holds: number;
  /** Of these, those that have not ended. */
  live_holds: number;
  /** Answers that are kept for retries. */
  operations: number;
  records: number;
  /** In the journal. */
  entries: number;
  /** All of these together. */
  rows: number;
  /** The text of all columns, and 100 for each row. */
  bytes: number;
  /** Whether the whole journal has been counted yet. */
  complete: boolean;
}

/** One client in one window of a budget or rate. */
export interface StoredWindowAnswer {
  /** a name that was too long for the id of a pool is given as # and its hash */
  client: string;
  /** empty for a rate */
  budget: string;
  /** day, week, month, year, or a length such as 60s */
  per: string;
  opens: string;
  closes: string | null;
  pool: string;
  total: number;
  /** held until a deadline: of a budget, the estimates */
  held: number;
  /** confirmed: of a budget, the actual amounts */
  consumed: number;
  available: number;
}

/** Windows in order of client; `next` is the `after` of the next page. */
export interface StoredWindowPage {
  items: StoredWindowAnswer[];
  next: string | null;
  server_time: string;
}

/** An event of a stream of summaries: what changed since the one before. */
export interface Summary {
  sums: Sums;
  complete: boolean;
  pools: PoolAnswer[];
  removed: string[];
  actions: Record<string, number>;
  reset: boolean;
  server_time: string;
}

/** Sums over all pools; `over` and `full` are numbers of pools. Units are those of pools that are below no other: a pool has the units of those below it, too. */
export interface Sums {
  pools: number;
  total: number;
  held: number;
  consumed: number;
  available: number;
  over: number;
  full: number;
}

/** The result of a sweep of all tenants. */
export interface SweepAnswer {
  expired: number;
  /** the holds that it expired, in order of (deadline, id) */
  holds: string[];
  /** the tenant of each of them */
  tenants: string[];
  more: boolean;
  server_time: string;
}

/** The sweeper of this process. */
export interface Sweeper {
  running: boolean;
  sweeps: number;
  expired: number;
  lag: number;
}

/** What an account uses of a pool. */
export interface TallyAnswer {
  account: string;
  used: number;
  loose: number;
}

/** One tenant. */
export interface TenantAnswer {
  name: string;
  state: "active" | "deleting" | "disabled";
  /** Active API keys. */
  keys: number;
  /** Its own; null: that of the server's settings. */
  quota: Quota | null;
  /** Why it was disabled. */
  note: string | null;
  /** When an operator last changed its state or its quota. */
  changed_at: string | null;
  /** Null in a list that was not asked for it, or that had no time to count it. */
  usage: StoredRows | null;
  server_time: string | null;
}

/** Tenants in order of name; `next` is the `after` of the next page. */
export interface TenantPage {
  items: TenantAnswer[];
  next: string | null;
  server_time: string;
}

/** The attempt at delivering a test event. */
export interface TestAnswer {
  at: string;
  /** The id of the event, which the receiver gets as `webhook-id`. */
  event: string;
  kind: "first" | "replay" | "retry" | "test";
  /** `delivered`, `gone` (410), `rejected` (any other status), or what went wrong, such as `connect_timed_out`. */
  outcome: string;
  status?: number | null;
  seconds: number;
  why?: string | null;
  server_time: string;
}

/** The usage of a client in one window. */
export interface UsageAnswer {
  budget: string;
  per: string;
  opens: string;
  closes: string;
  total: number;
  held: number;
  consumed: number;
  available: number;
}

/** The usage of a client. */
export interface UsagePage {
  items: UsageAnswer[];
  server_time: string;
}

/** Whether every row matches the journal, and every sealed run its seal. */
export interface VerifyAnswer {
  ok: boolean;
  differences: string[];
  /** the same differences, with their parts as fields */
  found: Difference[];
  server_time: string;
  /** by lane: the last entry that a seal covers; empty if nothing is sealed */
  sealed: Record<string, number>;
}

/** A job that verifies the journal. */
export interface VerifyJob {
  id: string;
  /** what it does, such as verify */
  kind: string;
  state: "cancelled" | "done" | "failed" | "running" | "stopping";
  /** steps done so far */
  done: number;
  /** steps in all, as far as is known; 0 before the first step */
  total: number;
  began_at: string;
  ended_at: string | null;
  /** of a job that is done: the document that its kind names */
  result: VerifyAnswer | null;
  /** of a job that failed */
  problem: JobProblem | null;
  server_time: string;
}

/** The caller that an API key belongs to, and what it may do. */
export interface WhoAmI {
  id: string;
  scope: "admin" | "hold" | "read";
  tenant: string;
  /** whether it may call routes that cover all tenants */
  operator: boolean;
  /** prefixes of the pools that the key is limited to; empty: all pools */
  pools: string[];
  /** the verbs that the key is limited to; empty: all of its scope */
  verbs: string[];
  /** whether this server accepts requests without an API key */
  open: boolean;
  server_time: string;
}

/** The result, and when it was decided. */
export interface WindowAnswer {
  decided: string;
  hold?: HoldNow | null;
  pool?: PoolNow | null;
  replayed?: boolean;
  server_time: string;
}

/** Windows in the requested order; null for a window that is not used yet. */
export interface WindowList {
  items: (PoolAnswer | null)[];
  server_time: string;
}
