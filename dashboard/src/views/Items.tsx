/** Items: single things, each available, held or spent. Those that begin with a text, or some by name. */
import { useSignal } from "@preact/signals";
import { ask } from "../api";
import { useFetched } from "../fetched";
import { number } from "../format";
import { offers } from "../offers";
import { Lookup, NotOffered } from "../parts/Lookup";
import { Broken, Notice, Waiting } from "../parts/Notice";
import { link } from "../route";
import { revision } from "../store";
import type { Item, Page } from "../types";

const MOST = 1_000;
const WHAT =
  "An item is one single thing: a seat by its number, a voucher, a posting. Many can be held at once, all or none.";

async function find(text: string, signal: AbortSignal): Promise<Item[]> {
  const names = text.split(/[\s,]+/).filter(Boolean);
  if (names.length < 2 && offers("get", "/v1/items") !== false)
    return (await ask<Page<Item>>("v1/items", { query: { prefix: names[0] ?? "", limit: MOST }, signal })).items;
  if (names.length === 0) return [];
  const ids = [...new Set(names)].slice(0, MOST);
  return (await ask<Page<Item>>("v1/items/states", { method: "POST", body: { ids }, signal })).items;
}

export function Items() {
  const sought = useSignal("");
  if (offers("post", "/v1/items/states") === false) return <NotOffered title="Items" what={WHAT} />;
  return (
    <Lookup title="Items" placeholder="The beginning of a name, or several names" sought={sought}>
      <Found key={sought.value} text={sought.value} />
    </Lookup>
  );
}

function Found({ text }: { text: string }) {
  const found = useFetched<Item[]>(
    `items ${text}`,
    (signal) => find(text, signal),
    () => void revision.value,
  );
  if (found.value === null)
    return found.error ? (
      <Broken error={found.error} again={() => void found.refresh()} />
    ) : (
      <Waiting what="the items" />
    );
  const list = found.value;
  if (list.length === 0)
    return (
      <Notice title={text.trim() === "" ? "No items to show" : "No item begins like that"}>
        <p class="muted">{WHAT}</p>
      </Notice>
    );
  const count = (state: string): string => number(list.filter((item) => item.state === state).length);
  return (
    <>
      <dl class="tiles">
        {(["available", "held", "spent"] as const).map((state) => (
          <div class="tile" key={state}>
            <dt>{state}</dt>
            <dd class={state === "held" ? "figure-held" : state === "spent" ? "figure-consumed" : ""}>
              {count(state)}
            </dd>
          </div>
        ))}
      </dl>
      <ul class="items" aria-label="Items">
        {list.map((item) => (
          <li key={item.id} data-state={item.state}>
            {item.hold === null ? (
              <span title={item.state}>{item.id}</span>
            ) : (
              <a href={link("hold", item.hold)} title={item.state}>
                {item.id}
              </a>
            )}
            <span class="unseen">{item.state}</span>
          </li>
        ))}
      </ul>
      {list.length >= MOST && <p class="muted small">The first {number(MOST)}. Type more of the name to see others.</p>}
    </>
  );
}
