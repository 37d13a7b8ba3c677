/** The buttons of a hold and of a pool: those that their state allows and that the API key may use. */
import { confirmHold, consumedOf, extendHold, placeHold, releaseHold, returnHold } from "../acting/holds";
import { permits, type Verb } from "../acting/permits";
import { archivePool, removePool, resizePool, returnLoose, unarchivePool } from "../acting/pools";
import type { HoldAnswer, PoolAnswer } from "../types";

interface Button {
  verb: Verb;
  name: string;
  danger?: boolean;
  /** Whether the state allows it. */
  when: boolean;
  click: () => void;
}

function Buttons({ of, pools }: { of: Button[]; pools: string[] }) {
  return (
    <>
      {of
        .filter(({ verb, when }) => when && permits(verb, pools))
        .map(({ name, danger, click }) => (
          <button key={name} type="button" class={danger ? "button danger" : "button"} onClick={click}>
            {name}
          </button>
        ))}
    </>
  );
}

export function HoldActions({ hold, after }: { hold: HoldAnswer; after: () => void }) {
  const [held, waits] = [hold.state === "held", hold.state === "waiting"];
  const consumed = consumedOf(hold) > 0; // also of a hold that was confirmed in part and then released, or has expired
  return (
    <Buttons
      pools={hold.legs.map((leg) => leg.pool)}
      of={[
        { verb: "confirm", name: "Confirm", when: held, click: () => confirmHold(hold, after) },
        {
          verb: "extend",
          name: "Extend",
          when: (held || waits) && hold.deadline !== null,
          click: () => extendHold(hold, after),
        },
        { verb: "release", name: "Release", danger: true, when: held, click: () => releaseHold(hold, after) },
        { verb: "release", name: "Remove from line", danger: true, when: waits, click: () => releaseHold(hold, after) },
        { verb: "return", name: "Return units", danger: true, when: consumed, click: () => returnHold(hold, after) },
      ]}
    />
  );
}

export function PoolActions({ pool, after }: { pool: PoolAnswer; after: () => void }) {
  const open = !pool.archived;
  return (
    <Buttons
      pools={[pool.id]}
      of={[
        { verb: "hold", name: "Place hold", when: open, click: () => placeHold(pool, after) },
        { verb: "resize_pool", name: "Change total", when: true, click: () => resizePool(pool, after) },
        {
          verb: "return_to_pool",
          name: "Return loose units",
          when: pool.loose > 0,
          click: () => returnLoose(pool, after),
        },
        { verb: "archive_pool", name: "Archive", when: open, click: () => archivePool(pool, after) },
        { verb: "unarchive_pool", name: "Unarchive", when: !open, click: () => unarchivePool(pool, after) },
        { verb: "remove_pool", name: "Remove", danger: true, when: true, click: () => removePool(pool) },
      ]}
    />
  );
}
