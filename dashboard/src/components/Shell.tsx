/** The frame around every view: connection state, theme switch. Screen readers announce changes of state only, not the rate and
 * not the seconds of the countdown. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { now } from "../clock";
import { compact } from "../format";
import { signOut } from "../key";
import type { ConnectionStatus } from "../live";
import { finderShown, helpShown } from "../keyboard";
import { link, route } from "../route";
import { me, perSecond, POLL, stream } from "../store";
import { setTheme, theme, type Theme } from "../theme";
import { Icon } from "./Icon";
import { NAV_ITEM, Navigation, VIEWS } from "./Navigation";

export function Shell({ children }: { children: ComponentChildren }) {
  const { view, id } = route.value;
  const here = NAV_ITEM[view] ?? view;
  const main = useRef<HTMLElement>(null);
  const began = useRef(false);
  useLayoutEffect(() => {
    const name = VIEWS.find(([name]) => name === here)?.[1] ?? "Holdkit";
    document.title = `${id || name} · Holdkit`;
    // the next Tab must continue in the new view; done at once, before a key can be pressed there
    if (began.current) main.current?.focus({ preventScroll: true });
    began.current = true;
  }, [view, id]);
  return (
    <div class="shell">
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.querySelector("main")?.focus())}
      >
        Skip to content
      </a>
      <header class="side">
        <a class="brand" href={link("pools")}>
          <Logo />
          <span>Holdkit</span>
        </a>
        <Navigation here={here} />
        <div class="side-foot">
          <ConnectionState />
          <div class="switches">
            <button
              type="button"
              class="icon-button"
              aria-label="Find anything"
              title="Find anything (/)"
              onClick={() => (finderShown.value = true)}
            >
              <Icon name="search" />
            </button>
            <ThemeSwitch />
            <button
              type="button"
              class="icon-button"
              aria-label="Keyboard shortcuts"
              title="Keyboard shortcuts (?)"
              onClick={() => (helpShown.value = true)}
            >
              <Icon name="keyboard" />
            </button>
            {!me.value?.open && (
              <button type="button" class="icon-button" aria-label="Sign out" title="Sign out" onClick={signOut}>
                <Icon name="signOut" />
              </button>
            )}
          </div>
        </div>
      </header>
      <ConnectionBanner />
      <main id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

/** The key gets no live updates: the page reads what it shows every few seconds. */
const polls = (): boolean =>
  stream.status.value.state === "refused" && stream.status.value.problem.status === 403 && me.value !== null;

/** The state of the connection; while nothing is received it is not live, whatever it looks like. */
function stateShown(): ConnectionStatus["state"] {
  const { state } = stream.status.value;
  if (polls()) return stream.down.value ? "connecting" : "live";
  return state === "live" && stream.down.value ? "connecting" : state;
}

function ConnectionState() {
  const rate = perSecond.value;
  const state = stateShown();
  if (state === "live" && polls())
    return (
      <div class="connection" data-state="live" title="This API key gets no live updates.">
        <i />
        <span role="status">Every {POLL / 1_000} s</span>
      </div>
    );
  return (
    <div class="connection" data-state={state}>
      <i />
      <span role="status">{state === "live" ? "Live" : state === "refused" ? "Stopped" : "Connecting"}</span>
      {state === "live" && <span class="muted">{compact(Math.round(rate * 10) / 10)}/s</span>}
    </div>
  );
}

/** Stays until something is received: an attempt to connect, which may hang, changes only what it says about itself. */
function ConnectionBanner() {
  const connection = stream.status.value;
  if (connection.state === "refused" && !polls())
    return connection.problem.status === 401 ? null : (
      <section class="banner" aria-label="Connection">
        <span role="alert">The server refused live updates: {connection.problem.message}</span>
      </section>
    );
  if (!stream.down.value) return null;
  void now.value; // so that the seconds count down
  const waits = connection.state === "waiting";
  const left = waits ? Math.max(0, Math.ceil((connection.until - Date.now()) / 1_000)) : 0;
  return (
    <section class="banner" aria-label="Connection">
      <span>
        <span role="alert">Disconnected from the server. The data shown may be out of date.</span> Reconnecting
        {left > 0 ? ` in ${left} s` : ""}…
      </span>
      {waits && (
        <button type="button" class="button small" onClick={stream.retry}>
          Reconnect now
        </button>
      )}
    </section>
  );
}

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

function ThemeSwitch() {
  const chosen = theme.value;
  const said = `Theme: ${chosen === "auto" ? "system" : chosen}`;
  return (
    <button type="button" class="icon-button" aria-label={said} title={said} onClick={() => setTheme(NEXT[chosen])}>
      <Icon name={chosen === "auto" ? "auto" : chosen === "light" ? "sun" : "moon"} />
    </button>
  );
}

export function Logo() {
  return <img class="mark" src="./icon.svg" alt="" width="28" height="28" />;
}

export function Head({
  title,
  over,
  children,
}: {
  title: ComponentChildren;
  over?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="head">
      <div class="head-title">
        {over && <p class="over">{over}</p>}
        <h1>{title}</h1>
      </div>
      {children && <div class="head-actions">{children}</div>}
    </div>
  );
}
