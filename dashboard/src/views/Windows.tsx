/** A set of budgets, or a rate: each client and window, with what was estimated, what was spent and what is left. */
import { useSignal } from "@preact/signals";
import { ask } from "../api";
import { now } from "../clock";
import { moment, number, percent, span } from "../format";
import { Icon } from "../components/Icon";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { ShowMore } from "../components/ShowMore";
import { link } from "../route";
import { revision } from "../store";
import type { StoredWindowAnswer, StoredWindowPage } from "../types";
import { usePages } from "../usePages";

const PAGE = 50;

export function WindowsView({ face, id }: { face: "budgets" | "rates"; id: string }) {
  const client = useSignal("");
  return (
    <>
      <Head
        over={<a href={link("faces")}>{face === "budgets" ? "Budgets" : "Rates"}</a>}
        title={
          <span class="id">
            <bdi>{id}</bdi>
          </span>
        }
      />
      <div class="tools">
        <label class="search wide">
          <Icon name="search" />
          <input
            type="search"
            aria-label="Client"
            placeholder="Client, exactly as it is written"
            value={client.value}
            maxLength={512}
            onInput={(event) => (client.value = event.currentTarget.value)}
          />
          <kbd>/</kbd>
        </label>
      </div>
      <Windows key={client.value} face={face} name={id} client={client.value.trim()} />
    </>
  );
}

function Windows({ face, name, client }: { face: "budgets" | "rates"; name: string; client: string }) {
  const pages = usePages<StoredWindowAnswer>(
    `${face} ${name} ${client}`,
    (after, signal) =>
      ask<StoredWindowPage>("v1/windows", {
        query: { face, name, client: client || undefined, after, limit: PAGE },
        signal,
      }),
    () => void revision.value,
  );
  const budgets = face === "budgets";
  return (
    <ReadState
      read={pages.read}
      what="the windows"
      isEmpty={(page) => page.items.length === 0}
      empty={
        <Notice title={client === "" ? "No window is in use" : "No window of this client is in use"}>
          <p class="muted">A window appears here when it is first used, and is swept away after it is over.</p>
        </Notice>
      }
    >
      {(page) => (
        <section class="card">
          <div class="scroll" tabIndex={0} role="region" aria-label="Windows">
            <table class="plain windows">
              <thead>
                <tr>
                  <th scope="col">client</th>
                  {budgets && <th scope="col">budget</th>}
                  <th scope="col">window</th>
                  {budgets && (
                    <th scope="col" class="figure">
                      estimated
                    </th>
                  )}
                  <th scope="col" class="figure">
                    {budgets ? "actual" : "taken"}
                  </th>
                  <th scope="col" class="figure">
                    left
                  </th>
                  <th scope="col" class="figure">
                    total
                  </th>
                  <th scope="col">
                    <span class="unseen">use</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {page.items.map((one) => (
                  <Row key={one.pool} one={one} budgets={budgets} />
                ))}
              </tbody>
            </table>
          </div>
          <ShowMore pages={pages} />
        </section>
      )}
    </ReadState>
  );
}

function Row({ one, budgets }: { one: StoredWindowAnswer; budgets: boolean }) {
  const left = one.closes === null ? null : Date.parse(one.closes) - now.value;
  const when = left === null ? "" : left > 0 ? `ends in ${span(left)}` : "over";
  const said = `${number(one.consumed)} spent and ${number(one.held)} estimated of ${number(one.total)}`;
  return (
    <tr data-over={left !== null && left <= 0 ? "" : undefined}>
      <td class="id who" title={one.client}>
        <bdi>{one.client}</bdi>
      </td>
      {budgets && (
        <td class="id">
          <bdi>{one.budget}</bdi>
        </td>
      )}
      <td title={`from ${moment(one.opens)}${one.closes === null ? "" : ` until ${moment(one.closes)}`}`}>
        {one.per} <span class="muted">{when}</span>
      </td>
      {budgets && <td class="figure figure-held">{number(one.held)}</td>}
      <td class="figure figure-consumed">{number(one.consumed)}</td>
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
