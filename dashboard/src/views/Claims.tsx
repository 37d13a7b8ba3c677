/** Claims: names that one owner has. All of them, or the one of a key, or those of an entity. */
import { useSignal } from "@preact/signals";
import { ask } from "../api";
import { now } from "../clock";
import { useFetched } from "../fetched";
import { span } from "../format";
import { offers } from "../offers";
import { State } from "../parts/Countdown";
import { Lookup, NotOffered } from "../parts/Lookup";
import { Broken, Notice, Waiting } from "../parts/Notice";
import { Virtual } from "../parts/Virtual";
import { link } from "../route";
import { phone } from "../screen";
import { revision } from "../store";
import type { Claim, Page } from "../types";

const MOST = 100;
const WHAT = "A claim is a name that one owner has: an e-mail address, a user name, a coupon.";

/** A text with a colon may be a key or an entity: both are looked up. */
async function find(text: string, signal: AbortSignal): Promise<Claim[]> {
  const wanted = text.trim();
  if (wanted === "") return (await ask<Page<Claim>>("v1/claims", { query: { limit: MOST }, signal })).items;
  const entity = ask<Page<Claim>>("v1/claims", { query: { entity: wanted, limit: MOST }, signal });
  const key = /^[^:]+:./.test(wanted) ? ask<Page<Claim>>("v1/claims", { query: { key: wanted }, signal }) : null;
  const found = [...((await key)?.items ?? []), ...(await entity).items];
  return found.filter((claim, place) => found.findIndex((other) => other.id === claim.id) === place);
}

export function Claims() {
  const sought = useSignal("");
  if (offers("get", "/v1/claims") === false) return <NotOffered title="Claims" what={WHAT} />;
  return (
    <Lookup title="Claims" placeholder="A key such as email:ann@example.org, or an entity" sought={sought}>
      <Found key={sought.value} text={sought.value} />
    </Lookup>
  );
}

function Found({ text }: { text: string }) {
  const found = useFetched<Claim[]>(
    `claims ${text}`,
    (signal) => find(text, signal),
    () => void revision.value,
  );
  if (found.value === null)
    return found.error ? (
      <Broken error={found.error} again={() => void found.refresh()} />
    ) : (
      <Waiting what="the claims" />
    );
  const list = found.value;
  if (list.length === 0)
    return (
      <Notice title={text.trim() === "" ? "No claims yet" : "Nobody has claimed that"}>
        <p class="muted">
          {text.trim() === "" ? WHAT : "Keys are compared letter by letter: nothing is trimmed or folded."}
        </p>
      </Notice>
    );
  return (
    <>
      <section class="table">
        <Virtual
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
      {list.length >= MOST && <p class="muted small">The first {MOST}. Search for a key or an entity to see others.</p>}
    </>
  );
}

function ClaimRow({ claim }: { claim: Claim }) {
  const left = claim.deadline_at === null ? 0 : Date.parse(claim.deadline_at) - now.value;
  return (
    <a class="row face-row" href={claim.hold === null ? link("claims") : link("hold", claim.hold)} tabIndex={-1}>
      <span class="id">{claim.key}</span>
      <State state={claim.state} />
      <span class="muted hold-who">{claim.entity ?? ""}</span>
      <span class="countdown">{claim.state === "held" && claim.deadline_at !== null ? span(left) : ""}</span>
    </a>
  );
}
