/** Items: individual things, each available, held or confirmed. Lists those with a prefix, or some by name. */
import { useSignal } from "@preact/signals";
import { ask } from "../api";
import { useFetched } from "../useFetched";
import { number } from "../format";
import { hasRoute } from "../features";
import { SearchView, NotSupported } from "../components/SearchView";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { link, route } from "../route";
import { revision } from "../store";
import type { Item, ItemList, ItemPage } from "../types";

const MOST = 1_000;
const WHAT =
  "An item is an individual thing, such as a numbered seat, a voucher or a posting. Several can be held together, all or none.";

async function find(text: string, signal: AbortSignal): Promise<Item[]> {
  const names = text.split(/[\s,]+/).filter(Boolean);
  if (names.length < 2 && hasRoute("get", "/v1/items") !== false)
    return (await ask<ItemPage>("v1/items", { query: { prefix: names[0] ?? "", limit: MOST }, signal })).items;
  if (names.length === 0) return [];
  const ids = [...new Set(names)].slice(0, MOST);
  return (await ask<ItemList>("v1/items/get", { method: "POST", body: { ids }, signal })).items;
}

export function Items() {
  const searchText = useSignal(route.peek().query.q ?? "");
  if (hasRoute("post", "/v1/items/get") === false) return <NotSupported title="Items" what={WHAT} />;
  return (
    <SearchView title="Items" placeholder="Prefix, or several names" searchText={searchText}>
      <Found key={searchText.value} text={searchText.value} />
    </SearchView>
  );
}

function Found({ text }: { text: string }) {
  const found = useFetched<Item[]>(
    `items ${text}`,
    (signal) => find(text, signal),
    () => void revision.value,
  );
  return (
    <ReadState
      read={found}
      what="items"
      isEmpty={(list) => list.length === 0}
      empty={
        <Notice title={text.trim() === "" ? "No items yet" : "No matching item"}>
          <p class="muted">{WHAT}</p>
        </Notice>
      }
    >
      {(list) => <List list={list} />}
    </ReadState>
  );
}

/** Characters that nine of ten names have at most, within reason: all cells are as wide as that. */
function widest(list: Item[]): number {
  const lengths = list.map((item) => item.id.length).sort((one, other) => one - other);
  return Math.min(40, Math.max(8, lengths[Math.floor(lengths.length * 0.9)] ?? 0));
}

function List({ list }: { list: Item[] }) {
  const count = (state: string): string => number(list.filter((item) => item.state === state).length);
  return (
    <>
      <dl class="tiles">
        {(["available", "held", "confirmed"] as const).map((state) => (
          <div class="tile" key={state}>
            <dt>{state}</dt>
            <dd class={state === "held" ? "figure-held" : state === "confirmed" ? "figure-consumed" : ""}>
              {count(state)}
            </dd>
          </div>
        ))}
      </dl>
      <ul class="items" aria-label="Items" style={{ "--widest": `${widest(list)}ch` }}>
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
      {list.length >= MOST && (
        <p class="muted small">Showing the first {number(MOST)}. Type a longer prefix to see others.</p>
      )}
    </>
  );
}
