/** The pools above and below a pool, as a tree. Each level is read when it is opened, a page at a time. */
import { useSignal } from "@preact/signals";
import { ask, segment } from "../api";
import { Bar } from "./Bar";
import { ReadState } from "./ReadState";
import { ShowMore } from "./ShowMore";
import { compact, number } from "../format";
import { link } from "../route";
import { membership, pools, revision } from "../store";
import { above, lastPart } from "../trees";
import type { PoolAnswer, PoolPage } from "../types";
import { usePages } from "../usePages";

const PAGE = 50;

export const inTree = (pool: PoolAnswer): boolean => pool.children > 0 || above(pool.id).length > 0;

export function PoolTree({ pool }: { pool: PoolAnswer }) {
  return (
    <section class="card">
      <h2>Tree</h2>
      <p class="muted small">
        What is held below a pool is held in the pool too. {number(pool.children)} directly below this one.
      </p>
      {above(pool.id).length > 0 && (
        <nav class="tree-path" aria-label="Pools above">
          {above(pool.id).map((id, depth) => (
            <span key={id}>
              {depth > 0 && <span class="muted"> › </span>}
              <a class="id" href={link("pool", id)}>
                <bdi>{lastPart(id)}</bdi>
              </a>
            </span>
          ))}
          <span>
            <span class="muted"> › </span>
            <strong class="id">
              <bdi>{lastPart(pool.id)}</bdi>
            </strong>
          </span>
        </nav>
      )}
      {pool.children > 0 && <Level of={pool.id} />}
    </section>
  );
}

function Level({ of }: { of: string }) {
  const path = `v1/pools/${segment(of)}/children`;
  const pages = usePages<PoolAnswer>(
    path,
    (after, signal) => ask<PoolPage>(path, { query: { after, limit: PAGE }, signal }),
    () => void [membership.value, pools.get(of)?.value ?? revision.value],
  );
  return (
    <ReadState
      part
      read={pages.read}
      what="the pools below"
      isEmpty={(page) => page.items.length === 0}
      empty={<p class="muted">Nothing is below this pool any more.</p>}
    >
      {(page) => (
        <>
          <ul class="tree">
            {page.items.map((pool) => (
              <Branch key={pool.id} pool={pool} />
            ))}
          </ul>
          <ShowMore pages={pages} />
        </>
      )}
    </ReadState>
  );
}

function Branch({ pool }: { pool: PoolAnswer }) {
  const open = useSignal(false);
  const name = lastPart(pool.id);
  return (
    <li>
      <div class="tree-row">
        {pool.children > 0 ? (
          <button
            type="button"
            class="tree-toggle"
            aria-expanded={open.value}
            aria-label={`Pools below ${name}`}
            onClick={() => (open.value = !open.value)}
          >
            {open.value ? "▾" : "▸"}
          </button>
        ) : (
          <span class="tree-toggle" />
        )}
        <a class="id" href={link("pool", pool.id)}>
          <bdi>{name}</bdi>
        </a>
        {pool.archived && <span class="badge">archived</span>}
        <Bar pool={pool} />
        <span class="figure">
          {compact(pool.available)} <span class="muted">of {compact(pool.total)} free</span>
        </span>
      </div>
      {open.value && <Level of={pool.id} />}
    </li>
  );
}
