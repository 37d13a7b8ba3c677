/** A kind of resource: each key and window, with the capacity that the application answered last. */
import { ask } from "../api";
import { number, percent } from "../format";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { ShowMore } from "../components/ShowMore";
import { link } from "../route";
import { revision } from "../store";
import type { ResourceAnswer, ResourcePage } from "../types";
import { usePages } from "../usePages";

const PAGE = 50;

/** A text without its quotation marks; anything else as JSON. */
const shown = (json: string): string => (/^"[^"\\]*"$/.test(json) ? json.slice(1, -1) : json);

export function ResourcesView({ id }: { id: string }) {
  const pages = usePages<ResourceAnswer>(
    id,
    (after, signal) => ask<ResourcePage>("v1/resources", { query: { kind: id, after, limit: PAGE }, signal }),
    () => void revision.value,
  );
  return (
    <>
      <Head
        over={<a href={link("faces")}>Resources</a>}
        title={
          <span class="id">
            <bdi>{id}</bdi>
          </span>
        }
      />
      <ReadState
        read={pages.read}
        what="the resources"
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Notice title="Nothing is kept of a resource of this kind">
            <p class="muted">A key appears here once something of it was held.</p>
          </Notice>
        }
      >
        {(page) => (
          <section class="card">
            <p class="muted small">The capacity is the one that the application answered last.</p>
            <div class="scroll" tabIndex={0} role="region" aria-label="Keys">
              <table class="plain windows">
                <thead>
                  <tr>
                    <th scope="col">key</th>
                    <th scope="col">window</th>
                    <th scope="col" class="figure">
                      consumed
                    </th>
                    <th scope="col" class="figure">
                      held
                    </th>
                    <th scope="col" class="figure">
                      free
                    </th>
                    <th scope="col" class="figure">
                      capacity
                    </th>
                    <th scope="col">
                      <span class="unseen">use</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((one) => (
                    <Row key={one.pool} one={one} />
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

function Row({ one }: { one: ResourceAnswer }) {
  const said = `${number(one.consumed)} consumed and ${number(one.held)} held of ${number(one.total)}`;
  return (
    <tr>
      <td class="id who" title={one.key}>
        <bdi>{shown(one.key)}</bdi>
      </td>
      <td class="id who" title={one.window}>
        {one.window === "null" ? <span class="muted">none</span> : <bdi>{shown(one.window)}</bdi>}
      </td>
      <td class="figure figure-consumed">{number(one.consumed)}</td>
      <td class="figure figure-held">{number(one.held)}</td>
      <td class="figure">{number(one.available)}</td>
      <td class="figure">{number(one.total)}</td>
      <td class="use-bar">
        <span class="bar" role="img" aria-label={said}>
          <span class="bar-consumed" style={{ width: `${percent(one.consumed, one.total)}%` }} />
          <span class="bar-held" style={{ width: `${percent(one.held, one.total)}%` }} />
        </span>
      </td>
    </tr>
  );
}
