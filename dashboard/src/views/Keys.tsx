/** The API keys of the tenant: who has which, when each was used last. Never their secrets. */
import { createKey, revokeKey, rotateKey } from "../acting/keys";
import { ManagedCard, ManagedList } from "../components/ManagedList";
import { moment } from "../format";
import { me } from "../store";
import type { KeyInfo } from "../types";

const KINDS: Record<string, string> = { active: "confirmed", expired: "expired", revoked: "released" };
const ORDER = ["active", "expired", "revoked"];

export function Keys() {
  return (
    <ManagedList<KeyInfo>
      title="Keys"
      what="API keys"
      path="v1/keys"
      create={{ name: "New key", open: createKey }}
      empty={{ title: "No API keys", about: "This server is open: it asks for none." }}
      compare={compare}
      card={(info, after) => <KeyCard key={info.id} info={info} after={after} />}
    />
  );
}

const compare = (one: KeyInfo, other: KeyInfo): number =>
  ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || (one.name < other.name ? -1 : one.name > other.name ? 1 : 0);

function KeyCard({ info, after }: { info: KeyInfo; after: () => void }) {
  const buttons = [
    { name: "Rotate", click: () => rotateKey(info, after) },
    { name: "Revoke", danger: true, click: () => revokeKey(info, after) },
  ];
  return (
    <ManagedCard
      mark={{ "data-key": info.name }}
      name={<strong>{info.name}</strong>}
      state={info.state}
      kind={KINDS[info.state]}
      more={
        <>
          <code>{info.scope}</code>
          <code class="id muted">{info.id}</code>
          {info.id === me.value?.id && <span class="muted small">the key of this tab</span>}
        </>
      }
      facts={[
        ["used last", info.used_at ? moment(info.used_at) : "no use recorded"],
        ["created", info.made_at && moment(info.made_at)],
        ["expires", info.expires_at && moment(info.expires_at)],
        ["revoked", info.revoked_at && moment(info.revoked_at)],
        ["only pools", info.pools?.join(", ")],
        ["only verbs", info.verbs?.join(", ")],
      ]}
      buttons={info.state === "active" ? buttons : []}
    />
  );
}
