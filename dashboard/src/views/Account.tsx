/** What one account uses, by pool, and the way to its holds. */
import { ask, segment } from "../api";
import { NamedHead, UseBar, UseTable, type Column } from "../components/UseTable";
import { number } from "../format";
import { link, linkWith } from "../route";
import { revision } from "../store";
import type { PoolUsageAnswer, PoolUsagePage } from "../types";
import { usePages } from "../usePages";

const PAGE = 100;

const COLUMNS: Column<PoolUsageAnswer>[] = [
  {
    name: "pool",
    cell: ({ pool }) => (
      <a class="id" href={link("pool", pool)}>
        <bdi>{pool}</bdi>
      </a>
    ),
  },
  { name: "used", figure: true, cell: ({ used }) => number(used) },
  {
    name: "limit",
    figure: true,
    cell: ({ limit }) => (limit === null ? <span class="muted">none</span> : number(limit)),
  },
  {
    name: "share of the limit",
    unseen: true,
    class: "use-bar",
    cell: ({ used, limit }) => limit !== null && <UseBar consumed={used} held={0} total={limit} />,
  },
];

export function AccountView({ id }: { id: string }) {
  const path = `v1/accounts/${segment(id)}/usage`;
  const pages = usePages<PoolUsageAnswer>(
    path,
    (after, signal) => ask<PoolUsagePage>(path, { query: { after, limit: PAGE }, signal }),
    () => void revision.value,
  );
  return (
    <>
      <NamedHead face="Accounts" name={id}>
        <a class="button" href={linkWith("holds", { account: id })}>
          Its holds
        </a>
      </NamedHead>
      <UseTable
        pages={pages}
        what="what the account uses"
        label="Use by pool"
        titled
        about="Units that it waits for, holds, or has confirmed and not returned."
        empty={{
          title: "This account uses nothing",
          about: "It neither waits for units, nor holds any, nor has any confirmed that were not returned.",
        }}
        columns={COLUMNS}
        keyOf={({ pool }) => pool}
      />
    </>
  );
}
