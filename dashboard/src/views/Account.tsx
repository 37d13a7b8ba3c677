/** What one account uses, by pool, and its holds. */
import { ask, segment } from "../api";
import { number, percent } from "../format";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { ShowMore } from "../components/ShowMore";
import { link } from "../route";
import { revision } from "../store";
import type { PoolUsageAnswer, PoolUsagePage } from "../types";
import { usePages } from "../usePages";

const PAGE = 100;

export function AccountView({ id }: { id: string }) {
  const path = `v1/accounts/${segment(id)}/usage`;
  const pages = usePages<PoolUsageAnswer>(
    path,
    (after, signal) => ask<PoolUsagePage>(path, { query: { after, limit: PAGE }, signal }),
    () => void revision.value,
  );
  return (
    <>
      <Head
        over={<a href={link("faces")}>Accounts</a>}
        title={
          <span class="id">
            <bdi>{id}</bdi>
          </span>
        }
      />
      <ReadState
        read={pages.read}
        what="what the account uses"
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Notice title="This account uses nothing">
            <p class="muted">
              It neither waits for units, nor holds any, nor has any confirmed that were not returned.
            </p>
          </Notice>
        }
      >
        {(page) => (
          <section class="card">
            <h2>Use by pool</h2>
            <p class="muted small">Units that it waits for, holds, or has confirmed and not returned.</p>
            <div class="scroll" tabIndex={0} role="region" aria-label="Use by pool">
              <table class="plain">
                <thead>
                  <tr>
                    <th scope="col">pool</th>
                    <th scope="col" class="figure">
                      used
                    </th>
                    <th scope="col" class="figure">
                      limit
                    </th>
                    <th scope="col">
                      <span class="unseen">share of the limit</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((use) => (
                    <Use key={use.pool} use={use} />
                  ))}
                </tbody>
              </table>
            </div>
            <ShowMore pages={pages} />
          </section>
        )}
      </ReadState>
    </>
  );
}

function Use({ use }: { use: PoolUsageAnswer }) {
  const said = use.limit === null ? "no limit" : `${number(use.used)} of ${number(use.limit)}`;
  return (
    <tr>
      <td>
        <a class="id" href={link("pool", use.pool)}>
          <bdi>{use.pool}</bdi>
        </a>
      </td>
      <td class="figure">{number(use.used)}</td>
      <td class="figure">{use.limit === null ? <span class="muted">none</span> : number(use.limit)}</td>
      <td class="use-bar">
        {use.limit !== null && (
          <span class="bar" role="img" aria-label={said} data-over={use.used > use.limit ? "" : undefined}>
            <span class="bar-consumed" style={{ width: `${percent(use.used, use.limit)}%` }} />
          </span>
        )}
      </td>
    </tr>
  );
}
