/** Claims: unique names, each with one owner. Lists all, the one of a key, or those of an entity. */
import { useSignal } from "@preact/signals";
import { ask } from "../api";
import { now } from "../clock";
import { useFetched } from "../useFetched";
import { span } from "../format";
import { hasRoute } from "../features";
import { State } from "../components/Countdown";
import { SearchView, NotSupported } from "../components/SearchView";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { VirtualList } from "../components/VirtualList";
import { link, route } from "../route";
import { phone } from "../screen";
import { revision } from "../store";
import type { ClaimAnswer, ClaimPage } from "../types";

const MOST = 100;
const WHAT = "A claim gives one owner a unique name, such as an e-mail address, a user name or a coupon code.";

/** A text with a colon may be a key or an entity: look up both. */
async function find(text: string, signal: AbortSignal): Promise<ClaimAnswer[]> {
  const wanted = text.trim();
  if (wanted === "") return (await ask<ClaimPage>("v1/claims", { query: { limit: MOST }, signal })).items;
  // together: if the search is given up, both fail, and no failure may be left without a reader
  const [key, entity] = await Promise.all([
    /^[^:]+:./.test(wanted) ? ask<ClaimPage>("v1/claims", { query: { key: wanted }, signal }) : null,
    ask<ClaimPage>("v1/claims", { query: { entity: wanted, limit: MOST }, signal }),
  ]);
  const found = [...(key?.items ?? []), ...entity.items];
  return found.filter((claim, index) => found.findIndex((other) => other.id === claim.id) === index);
}

export function Claims() {
  const searchText = useSignal(route.peek().query.q ?? "");
  if (hasRoute("get", "/v1/claims") === false) return <NotSupported title="Claims" what={WHAT} />;
  return (
    <SearchView title="Claims" placeholder="Key (email:ann@example.org) or entity" searchText={searchText}>
      <Found key={searchText.value} text={searchText.value} />
    </SearchView>
  );
}

function Found({ text }: { text: string }) {
  const found = useFetched<ClaimAnswer[]>(
    `claims ${text}`,
    (signal) => find(text, signal),
    () => void revision.value,
  );
  const none = text.trim() === "" ? "No claims yet" : "No matching claim";
  return (
    <ReadState
      read={found}
      what="claims"
      isEmpty={(list) => list.length === 0}
      empty={
        <Notice title={none}>
          <p class="muted">{text.trim() === "" ? WHAT : "Keys must match exactly, including case and spaces."}</p>
        </Notice>
      }
    >
      {(list) => (
        <>
          <section class="table">
            <VirtualList
              label="Claims"
              count={list.length}
              rowHeight={phone.value ? 64 : 44}
              keyOf={(index) => list[index]?.id ?? ""}
              row={(index) => {
                const claim = list[index];
                return claim && <ClaimRow claim={claim} />;
              }}
            />
          </section>
          {list.length >= MOST && (
            <p class="muted small">Showing the first {MOST}. Search for a key or an entity to see others.</p>
          )}
        </>
      )}
    </ReadState>
  );
}

function ClaimRow({ claim }: { claim: ClaimAnswer }) {
  const left = claim.deadline === null ? 0 : Date.parse(claim.deadline) - now.value;
  return (
    <a class="row face-row" href={claim.hold === null ? link("claims") : link("hold", claim.hold)} tabIndex={-1}>
      <span class="id">{claim.key}</span>
      <State state={claim.state} />
      <span class="muted hold-who">{claim.entity ?? ""}</span>
      <span class="countdown">{claim.state === "held" && claim.deadline !== null ? span(left) : ""}</span>
    </a>
  );
}
