/** Which view is shown: the gate if there is no key that counts, else what the address says. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, Problem } from "./api";
import { key } from "./key";
import { readOffers } from "./offers";
import { Dialogs } from "./parts/Dialog";
import { Gate } from "./parts/Gate";
import { Help } from "./parts/Help";
import { Broken } from "./parts/Notice";
import { Shell } from "./parts/Shell";
import { Toast } from "./parts/Toast";
import { route } from "./route";
import { me, stream } from "./store";
import type { WhoAmI } from "./types";
import { Claims } from "./views/Claims";
import { Health } from "./views/Health";
import { HoldView } from "./views/Hold";
import { Items } from "./views/Items";
import { Journal } from "./views/Journal";
import { PoolView } from "./views/Pool";
import { Pools } from "./views/Pools";
import { Sagas } from "./views/Sagas";

const refused = signal<Problem | null>(null);
const knocking = signal(true);
let timer = 0;

/** Ask who we are; begin if that is answered. */
async function enter(): Promise<void> {
  knocking.value = true;
  clearTimeout(timer);
  try {
    me.value = await ask<WhoAmI>("v1/whoami");
    refused.value = null;
    stream.start();
    void readOffers();
  } catch (error) {
    refused.value = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
    if (refused.value.status === 0 || refused.value.status >= 500) timer = setTimeout(() => void enter(), 2_000);
  }
  knocking.value = false;
}

export function App() {
  useEffect(() => {
    void enter();
    // A key that is forgotten leaves nothing of what it showed: the page begins anew.
    return key.subscribe((text) => text === null && me.peek() && !me.peek()?.open && location.reload());
  }, []);
  const line = stream.link.value;
  if (me.value === null || (line.state === "refused" && line.problem.status === 401)) {
    const why = line.state === "refused" ? line.problem : refused.value;
    if (why?.status === 401) return <Gate refused={why} enter={() => (me.value ? location.reload() : void enter())} />;
    if (why === null) return null;
    return (
      <main class="gate">
        <Broken error={why} again={() => void enter()} />
      </main>
    );
  }
  return (
    <>
      <Shell>
        <View />
      </Shell>
      <Dialogs />
      <Help />
      <Toast />
    </>
  );
}

function View() {
  const { view, id } = route.value;
  switch (view) {
    case "pool":
      return <PoolView key={id} id={id} />;
    case "hold":
      return <HoldView key={id} id={id} />;
    case "journal":
      return <Journal />;
    case "claims":
      return <Claims />;
    case "items":
      return <Items />;
    case "sagas":
      return <Sagas />;
    case "health":
      return <Health />;
    default:
      return <Pools />;
  }
}
