/** The API keys of the tenant: who has which, when each was used last. Never their secrets. */
import { createKey, revokeKey, rotateKey } from "../acting/keys";
import { manages } from "../acting/permits";
import { ask } from "../api";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { moment } from "../format";
import { me, revision } from "../store";
import type { KeyInfo, KeyPage } from "../types";
import { useFetched } from "../useFetched";
import { NeedsAdmin } from "../components/NeedsAdmin";

const KINDS: Record<string, string> = { active: "confirmed", expired: "expired", revoked: "released" };
const ORDER = ["active", "expired", "revoked"];

export function Keys() {
  if (!manages()) return <NeedsAdmin title="Keys" what="API keys" />;
  return <List />;
}

function List() {
  const keys = useFetched<KeyPage>(
    "v1/keys",
    (signal) => ask("v1/keys", { signal }),
    () => void revision.value,
  );
  const after = (): void => void keys.refresh();
  return (
    <>
      <Head title="Keys">
        <button type="button" class="button" onClick={() => createKey(after)}>
          New key
        </button>
      </Head>
      <ReadState
        read={keys}
        what="the keys"
        isEmpty={(page) => page.items.length === 0}
        empty={
          <Notice title="No API keys">
            <p class="muted">This server is open: it asks for none.</p>
          </Notice>
        }
      >
        {(page) => (
          <>
            {[...page.items]
              .sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || compare(one, other))
              .map((key) => (
                <KeyCard key={key.id} info={key} after={after} />
              ))}
          </>
        )}
      </ReadState>
    </>
  );
}

const compare = (one: KeyInfo, other: KeyInfo): number => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0);

function KeyCard({ info, after }: { info: KeyInfo; after: () => void }) {
  const facts: [string, string | null | undefined][] = [
    ["used last", info.used_at ? moment(info.used_at) : "not known to be used"],
    ["created", info.made_at && moment(info.made_at)],
    ["expires", info.expires_at && moment(info.expires_at)],
    ["revoked", info.revoked_at && moment(info.revoked_at)],
    ["only pools", info.pools?.join(", ")],
    ["only verbs", info.verbs?.join(", ")],
  ];
  return (
    <section class="card managed" data-key={info.name}>
      <div class="timeline-line">
        <strong>{info.name}</strong>
        <span class="badge" data-kind={KINDS[info.state]}>
          {info.state}
        </span>
        <code>{info.scope}</code>
        <code class="id muted">{info.id}</code>
        {info.id === me.value?.id && <span class="muted small">the key of this tab</span>}
      </div>
      <dl class="facts">
        {facts.map(([name, value]) =>
          value ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ) : null,
        )}
      </dl>
      {info.state === "active" && (
        <div class="managed-buttons">
          <button type="button" class="button small" onClick={() => rotateKey(info, after)}>
            Rotate
          </button>
          <button type="button" class="button small danger" onClick={() => revokeKey(info, after)}>
            Revoke
          </button>
        </div>
      )}
    </section>
  );
}
