/** Chooses what is shown: the sign-in form without a valid API key, otherwise the view that the address names. */
import { signal, useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, LATE, Problem, READ_PATIENCE } from "./api";
import { key, offered, takeOffered } from "./key";
import { readRoutes } from "./features";
import { confirmAction, Dialogs } from "./components/Dialog";
import { SignIn } from "./components/SignIn";
import { Finder } from "./components/Finder";
import { Help } from "./components/Help";
import { ErrorNotice, Loading } from "./components/Notice";
import { Shell } from "./components/Shell";
import { showToast, Toast } from "./components/Toast";
import { route } from "./route";
import { me, stream } from "./store";
import type { WhoAmI } from "./types";
import { Claims } from "./views/Claims";
import { faceView } from "./views/faceViews";
import { Health } from "./views/Health";
import { HoldView } from "./views/Hold";
import { Holds } from "./views/Holds";
import { Items } from "./views/Items";
import { Keys } from "./views/Keys";
import { Journal } from "./views/Journal";
import { Past } from "./views/Past";
import { PoolView } from "./views/Pool";
import { Pools } from "./views/Pools";
import { Sagas } from "./views/Sagas";
import { Webhooks } from "./views/Webhooks";

const refused = signal<Problem | null>(null);
let timer = 0;

const CROWDED = `no answer within ${READ_PATIENCE / 1_000} s. A browser opens six connections to a server: if many windows show this page, close some`;

/** Check the API key; on success start the live stream. */
async function signIn(): Promise<void> {
  clearTimeout(timer);
  try {
    me.value = await ask<WhoAmI>("v1/whoami");
    refused.value = null;
    stream.start();
    void readRoutes();
  } catch (error) {
    const late = !(error instanceof Problem) || error.reason === LATE;
    refused.value = late ? new Problem(0, LATE, CROWDED) : error;
    if (refused.value.status === 0 || refused.value.status >= 500) timer = setTimeout(() => void signIn(), 2_000);
  }
}

/** A link offered another key than this tab uses: say so, and let the user choose; if that is refused, or there is none, take it. */
function askAboutLink(): void {
  const found = offered.value;
  if (me.value === null && refused.value?.status === 401 && takeOffered()) void signIn();
  if (found === null || me.value === null || me.value.open) return;
  if (found === "malformed") {
    offered.value = null;
    showToast("The link does not contain a valid API key. This tab still uses the key that it had.");
    return;
  }
  confirmAction({
    title: "Use the API key of this link?",
    reason: false,
    effect: () => [
      "This tab is signed in with another API key. Everything that it shows will be what the new key may see.",
    ],
    verb: "Switch key",
    dismiss: "Keep the current key",
    act: () => {
      takeOffered();
      location.reload();
      return Promise.resolve("The tab uses the key of the link.");
    },
  });
}

export function App() {
  useEffect(() => {
    void signIn();
    // After signing out nothing of what the key showed may remain: reload the page.
    return key.subscribe((text) => text === null && me.peek() && !me.peek()?.open && location.reload());
  }, []);
  useSignalEffect(askAboutLink);
  const connection = stream.status.value;
  if (me.value === null || (connection.state === "refused" && connection.problem.status === 401)) {
    const why = connection.state === "refused" ? connection.problem : refused.value;
    if (why?.status === 401)
      return <SignIn refused={why} signIn={() => (me.value ? location.reload() : void signIn())} />;
    if (why === null)
      return (
        <main class="sign-in">
          <Loading what="the server's answer" />
        </main>
      );
    return (
      <main class="sign-in">
        <ErrorNotice error={why} retry={() => void signIn()} />
      </main>
    );
  }
  return (
    <>
      <Shell>
        <View />
      </Shell>
      <Dialogs />
      <Finder />
      <Help />
      <Toast />
    </>
  );
}

function View() {
  const { view, id, query } = route.value;
  switch (view) {
    case "pool":
      return <PoolView key={id} id={id} />;
    case "hold":
      return <HoldView key={id} id={id} />;
    case "holds":
      return <Holds />;
    case "past":
      return <Past />;
    case "journal":
      return <Journal />;
    case "claims":
      return <Claims key={query.q} />;
    case "items":
      return <Items key={query.q} />;
    case "sagas":
      return <Sagas key={query.show} />;
    case "health":
      return <Health />;
    case "webhooks":
      return <Webhooks />;
    case "keys":
      return <Keys />;
    default:
      return faceView(view, id, JSON.stringify(query)) ?? <Pools key={JSON.stringify(query)} />;
  }
}
