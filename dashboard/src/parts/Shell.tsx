/** The frame around every view: where one can go, whether the line is live, the switches. Only what a listener must know is
 * announced: not the rate, not the seconds. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { now } from "../clock";
import { brief } from "../format";
import { forgetKey } from "../key";
import { helping } from "../keyboard";
import { link, route } from "../route";
import { me, perSecond, stream } from "../store";
import { setTheme, theme, type Theme } from "../theme";
import { Icon, type IconName } from "./Icon";

const PLACES: [string, string, IconName][] = [
  ["pools", "Pools", "pools"],
  ["journal", "Journal", "journal"],
  ["claims", "Claims", "claims"],
  ["items", "Items", "items"],
  ["sagas", "Sagas", "sagas"],
  ["health", "Health", "health"],
];
const BELONGS: Record<string, string> = { pool: "pools", hold: "pools" };

export function Shell({ children }: { children: ComponentChildren }) {
  const { view, id } = route.value;
  const here = BELONGS[view] ?? view;
  const main = useRef<HTMLElement>(null);
  const began = useRef(false);
  useLayoutEffect(() => {
    const name = PLACES.find(([place]) => place === here)?.[1] ?? "Holdkit";
    document.title = `${id || name} · Holdkit`;
    // whoever went somewhere is there: the next Tab goes on in the new view; at once, before a key can be pressed in it
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
        Skip to the content
      </a>
      <header class="side">
        <a class="brand" href={link("pools")}>
          <Mark />
          <span>Holdkit</span>
        </a>
        <nav class="nav" aria-label="Views">
          {PLACES.map(([view, name, icon]) => (
            <a key={view} href={link(view)} aria-current={here === view ? "page" : undefined}>
              <Icon name={icon} />
              <span>{name}</span>
            </a>
          ))}
        </nav>
        <div class="side-foot">
          <Line />
          <div class="switches">
            <ThemeSwitch />
            <button
              type="button"
              class="icon-button"
              aria-label="Keys"
              title="Keys (?)"
              onClick={() => (helping.value = true)}
            >
              <Icon name="keyboard" />
            </button>
            {!me.value?.open && (
              <button
                type="button"
                class="icon-button"
                aria-label="Forget the key"
                title="Forget the key"
                onClick={forgetKey}
              >
                <Icon name="leave" />
              </button>
            )}
          </div>
        </div>
      </header>
      <Trouble />
      <main id="main" ref={main} tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function Line() {
  const state = stream.link.value.state;
  const rate = perSecond.value;
  return (
    <div class="line" data-state={state}>
      <i />
      <span role="status">{state === "live" ? "Live" : state === "refused" ? "Stopped" : "Connecting"}</span>
      {state === "live" && <span class="muted">{brief(Math.round(rate * 10) / 10)}/s</span>}
    </div>
  );
}

function Trouble() {
  const line = stream.link.value;
  if (line.state === "waiting" && line.attempt > 1) {
    void now.value; // so that the seconds count down
    const left = Math.max(0, Math.ceil((line.until - Date.now()) / 1_000));
    return (
      <div class="trouble">
        <span>
          <span role="alert">The server is gone. What you see is as it was.</span> Trying again
          {left > 0 ? ` in ${left} s` : ""}…
        </span>
        <button type="button" class="button small" onClick={stream.retry}>
          Now
        </button>
      </div>
    );
  }
  if (line.state === "refused" && line.problem.status !== 401)
    return (
      <div class="trouble" role="alert">
        The server refuses live news: {line.problem.message}
      </div>
    );
  return null;
}

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

function ThemeSwitch() {
  const chosen = theme.value;
  const said = `Colours: ${chosen === "auto" ? "as the system says" : chosen}`;
  return (
    <button type="button" class="icon-button" aria-label={said} title={said} onClick={() => setTheme(NEXT[chosen])}>
      <Icon name={chosen === "auto" ? "auto" : chosen === "light" ? "sun" : "moon"} />
    </button>
  );
}

export function Mark() {
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
