/** Journal entries: as rows of a live list, and as the history of one hold or pool. */
import { poolName } from "../faces";
import { clock, moment, number, shortId, stamp } from "../format";
import { link, linkWith } from "../route";
import { phone } from "../screen";
import type { EntryAnswer } from "../types";

/** The group an action belongs to, which decides its colour. */
export function kindOf(action: string): string {
  const word = action.slice(action.indexOf(".") + 1);
  if (word.includes("confirmed")) return "confirmed";
  if (word.includes("released") || word === "returned") return "released";
  if (word === "offered") return "held";
  if (word === "refused") return "expired";
  return ["held", "waiting", "expired", "extended"].includes(word) ? word : "other";
}

export function Action({ action }: { action: string }) {
  const [subject = "", word = action] = action.split(".");
  return (
    <span class="badge" data-kind={kindOf(action)}>
      {subject === "hold" ? word.replace("_", " ") : action.replace("_", " ")}
    </span>
  );
}

const signed = (value: number): string => (value > 0 ? `+${number(value)}` : number(value).replace("-", "−"));

/** What a refused command asked for, and why it was refused. */
function Refusal({ entry, most }: { entry: EntryAnswer; most: number }) {
  const refused = entry.refused;
  if (!refused) return null;
  return (
    <>
      <span class="effect">
        <span class="effect-pool">{refused.command.replaceAll("_", " ")}</span>
        <b>{refused.reason.replaceAll("_", " ")}</b>
      </span>
      {refused.legs.slice(0, most).map((leg) => (
        <span key={leg.pool} class="effect">
          <span class="effect-pool">{leg.name}</span>
          <b>{number(leg.quantity)} asked</b>
          {leg.available != null && <span class="muted">{number(leg.available)} available</span>}
        </span>
      ))}
      {refused.legs.length > most && <span class="muted">and {refused.legs.length - most} more</span>}
    </>
  );
}

/** How the counters of each pool changed; of a refusal, what was asked for. */
export function Effects({ entry, most = 2 }: { entry: EntryAnswer; most?: number }) {
  const moved = entry.action === "hold.reassigned";
  const pools = moved ? [] : entry.pools;
  const shown = pools.slice(0, most);
  const deadline = entry.action === "hold.extended" ? entry.after.deadline : null;
  return (
    <span class="effects">
      <Refusal entry={entry} most={most} />
      {shown.map((effect) => (
        <span key={effect.pool.id} class="effect">
          <span class="effect-pool">{poolName(effect.pool.id, effect.label)}</span>
          {effect.total !== 0 && <b>{signed(effect.total)} total</b>}
          {effect.held !== 0 && <b class="figure-held">{signed(effect.held)} held</b>}
          {!!effect.waiting && <b>{signed(effect.waiting)} waiting</b>}
          {effect.consumed !== 0 && <b class="figure-consumed">{signed(effect.consumed)} consumed</b>}
        </span>
      ))}
      {moved && (
        <span class="muted">
          to <b>{String(entry.after.account ?? "no account")}</b>
        </span>
      )}
      {typeof deadline === "string" && (
        <span class="muted">
          until <b>{clock(deadline)}</b>
        </span>
      )}
      {pools.length > most && <span class="muted">and {pools.length - most} more</span>}
    </span>
  );
}

/** Where an entry leads: to its hold or pool, otherwise to all entries about the same subject. */
function targetOf({ action, subject }: EntryAnswer): string {
  const refusedHold = action === "command.refused" && /^[0-9a-f]{32}$/.test(subject);
  if (action.startsWith("hold.") || action.startsWith("leg.") || refusedHold) return link("hold", subject);
  if (action.startsWith("pool.") && !subject.startsWith("~")) return link("pool", subject);
  return linkWith("past", { subject });
}

/** How many pools a row has room for: two, if there are no more and one counter of each has changed. */
const roomFor = ({ pools }: EntryAnswer): number =>
  pools.length <= 2 &&
  pools.every(({ held, consumed, total, waiting }) => [held, consumed, total, waiting].filter(Boolean).length < 2)
    ? 2
    : 1;

/** A hold by the end of its id; a pool by its name, which the row has already if it is one of a face. */
const subjectOf = ({ subject, pools: [first] }: EntryAnswer): string =>
  first && first.pool.id === subject && subject.startsWith("~") ? "" : shortId(subject);

export function EntryRow({ entry, dated = false }: { entry: EntryAnswer; dated?: boolean }) {
  return (
    <a class={dated ? "row entry dated" : "row entry"} href={targetOf(entry)} tabIndex={-1}>
      <time>{dated ? stamp(entry.at) : clock(entry.at, true)}</time>
      <Action action={entry.action} />
      <span class="id entry-subject">{subjectOf(entry)}</span>
      <Effects entry={entry} most={phone.value ? 1 : roomFor(entry)} />
      <span class="muted entry-who">
        {[entry.actor, entry.forced ? "forced" : null, entry.reason].filter(Boolean).join(" · ")}
      </span>
    </a>
  );
}

/** Entries as a timeline, in journal order. */
export function Timeline({ entries }: { entries: EntryAnswer[] }) {
  return (
    <ol class="timeline">
      {entries.map((entry) => (
        <li key={entry.position} data-kind={kindOf(entry.action)}>
          <div class="timeline-line">
            <Action action={entry.action} />
            {entry.forced && (
              <span class="badge" data-kind="expired">
                forced
              </span>
            )}
            <time class="muted">{moment(entry.at)}</time>
          </div>
          <div class="timeline-more">
            <Effects entry={entry} most={8} />
            {entry.reason && <span class="quote">{entry.reason}</span>}
            <span class="muted">
              {[
                entry.actor,
                entry.client_id && entry.actor !== `api_client:${entry.client_id}` && `with key ${entry.client_id}`,
                entry.correlation_id && `correlation ${entry.correlation_id}`,
                entry.op && `operation ${entry.op}`,
              ]
                .filter(Boolean)
                .join(" · ")}
            </span>
          </div>
        </li>
      ))}
    </ol>
  );
}
