/** What the API key of this tab may do. The server decides; the page only offers nothing that would be refused. */
import { may, me } from "../store";

/** The verbs that a key can be limited to, and the scope that each needs. */
const SCOPES = {
  hold: "hold",
  confirm: "hold",
  release: "hold",
  extend: "hold",
  return: "hold",
  create_pool: "admin",
  resize_pool: "admin",
  remove_pool: "admin",
  archive_pool: "admin",
  unarchive_pool: "admin",
  return_to_pool: "admin",
} as const;

export type Verb = keyof typeof SCOPES;

/** Whether the key may use a verb on these pools. */
export function permits(verb: Verb, pools: string[] = []): boolean {
  const key = me.value;
  if (key === null || !may(SCOPES[verb])) return false;
  if (key.verbs.length > 0 && !key.verbs.includes(verb)) return false;
  return key.pools.length === 0 || pools.every((pool) => key.pools.some((prefix) => pool.startsWith(prefix)));
}

/** Whether the key may read what covers all pools: the journal, claims, items and the other faces, sagas. */
export const readsAllPools = (): boolean => me.value?.pools.length === 0;

/** Whether the key may manage sagas, webhooks and keys: never if it is limited. */
export const manages = (): boolean => may("admin") && me.value?.pools.length === 0 && me.value.verbs.length === 0;
