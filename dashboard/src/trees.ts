/** Trees of pools: a pool is below the one whose id stands before its last separator. */
const SEPARATOR = "//";

/** The pools above a pool, the root first. */
export function above(id: string): string[] {
  const parts = id.startsWith("~") ? [] : id.split(SEPARATOR);
  return parts.slice(1).map((_, depth) => parts.slice(0, depth + 1).join(SEPARATOR));
}

export const rootOf = (id: string): string => above(id)[0] ?? id;

/** The name of a pool among those beside it. */
export const lastPart = (id: string): string => (id.includes(SEPARATOR) ? id.slice(id.lastIndexOf(SEPARATOR) + 2) : id);
