/**
 * The finder: a dialog over every view that finds pools, holds, entities, accounts, claims and items by a text. What is typed
 * is asked for at once; only the answer to the newest text is shown, and Enter opens nothing that answers an older one.
 */
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, Problem } from "../api";
import { shortId } from "../format";
import { finderShown } from "../keyboard";
import { goTo, link, linkWith } from "../route";
import type { SearchAnswer } from "../types";
import { Icon } from "./Icon";
import { adviceOf, reasonOf } from "./Notice";

/** Of each group. */
const MOST = 6;
/** Milliseconds after the last keystroke before the text is sent. */
const TYPING = 120;

interface Choice {
  name: string;
  note: string;
  href: string;
}

interface Answered {
  text: string;
  answer: SearchAnswer | null;
  error: unknown;
}

const NOTHING: Answered = { text: "", answer: null, error: null };

/** Answers to what is typed; that to an older text never replaces a newer one. */
class Lookup {
  readonly state = signal<Answered>(NOTHING);
  private aborter = new AbortController();
  private timer = 0;

  ask(text: string): void {
    this.stop();
    if (text === "") {
      this.state.value = NOTHING;
      return;
    }
    const { signal } = (this.aborter = new AbortController());
    this.timer = setTimeout(() => void this.read(text, signal), TYPING);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.aborter.abort();
  }

  private async read(text: string, signal: AbortSignal): Promise<void> {
    let found: Answered;
    try {
      found = { text, answer: await ask("v1/search", { query: { q: text, limit: MOST }, signal }), error: null };
    } catch (error) {
      found = { text, answer: null, error };
    }
    if (!signal.aborted) this.state.value = found;
  }
}

function groupsOf(answer: SearchAnswer): [string, Choice[]][] {
  const groups: [string, Choice[]][] = [
    ["Pools", answer.pools.map(({ id, archived }) => choice(id, archived ? "archived" : "", link("pool", id)))],
    [
      "Holds",
      answer.holds.map(({ id, state, entity }) =>
        choice(shortId(id), [state, entity].filter(Boolean).join(" · "), link("hold", id)),
      ),
    ],
    ["Entities", answer.entities.map((entity) => choice(entity, "its holds", linkWith("holds", { entity })))],
    ["Accounts", answer.accounts.map((account) => choice(account, "its holds", linkWith("holds", { account })))],
    [
      "Claims",
      answer.claims.map(({ key, state, hold }) =>
        choice(key, state, hold === null ? linkWith("claims", { q: key }) : link("hold", hold)),
      ),
    ],
    [
      "Items",
      answer.items.map(({ id, state, hold }) =>
        choice(id, state, hold === null ? linkWith("items", { q: id }) : link("hold", hold)),
      ),
    ],
  ];
  return groups.filter(([, choices]) => choices.length > 0);
}

const choice = (name: string, note: string, href: string): Choice => ({ name, note, href });

export function Finder() {
  return finderShown.value ? <FinderDialog /> : null;
}

function FinderDialog() {
  const box = useRef<HTMLDialogElement>(null);
  const [lookup] = useState(() => new Lookup());
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [entered, setEntered] = useState(false);
  useLayoutEffect(() => {
    const dialog = box.current; // opened at once: the next key is typed into it
    dialog?.showModal();
    return () => {
      lookup.stop();
      dialog?.close(); // gives the focus back
    };
  }, []);
  const { text: answered, answer, error } = lookup.state.value;
  const wanted = text.trim();
  const current = wanted === answered;
  const groups = answer === null ? [] : groupsOf(answer);
  const choices = groups.flatMap(([, list]) => list);
  const close = (): void => void (finderShown.value = false);
  const open = ({ href }: Choice): void => {
    close();
    goTo(href);
  };
  const enter = (): void => {
    if (current && error !== null) lookup.ask(wanted); // try again
    const found = choices[at];
    if (!current) setEntered(true);
    else if (found) open(found);
  };
  useEffect(() => {
    if (!current || !entered) return;
    setEntered(false);
    if (choices[0]) open(choices[0]);
  });
  const write = (typed: string): void => {
    setText(typed);
    setAt(0);
    setEntered(false);
    if (typed.trim() !== wanted) lookup.ask(typed.trim());
  };
  const press = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") enter();
    else if (by === undefined || choices.length === 0) return;
    else setAt((at + by + choices.length) % choices.length);
    event.preventDefault();
  };
  return (
    <dialog
      ref={box}
      class="dialog finder"
      aria-label="Find anything"
      onCancel={close}
      onClick={(event) => event.target === box.current && close()}
    >
      <div class="search">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Find pools, holds, entities, accounts, claims and items"
          aria-expanded={choices.length > 0}
          aria-controls="finder-choices"
          aria-autocomplete="list"
          aria-activedescendant={choices.length > 0 ? `finder-${at}` : undefined}
          placeholder="Pool, hold, entity, account, claim or item"
          value={text}
          maxLength={512}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={press}
        />
      </div>
      <Choices groups={groups} at={at} open={open} />
      <p class="muted small" role="status">
        {said(wanted, lookup.state.value, choices.length)}
      </p>
    </dialog>
  );
}

/** What there is to say below the choices. */
function said(wanted: string, { text, answer, error }: Answered, count: number): string {
  if (wanted === "")
    return "Names that begin with the text; pools also by any part of their name; claims by their whole key.";
  if (wanted !== text) return "Searching…";
  if (error !== null) {
    const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
    return `The search failed: ${reasonOf(problem)}. ${adviceOf(problem)} Press Enter to try again.`;
  }
  const more =
    answer?.complete === false ? " There are more pools than were searched: search on the page of pools." : "";
  return count === 0 ? `Nothing found.${more}` : `${count} found. Arrows choose, Enter opens.${more}`;
}

interface ChoicesProps {
  groups: [string, Choice[]][];
  at: number;
  open: (choice: Choice) => void;
}

function Choices({ groups, at, open }: ChoicesProps) {
  const chosen = useRef<HTMLDivElement>(null);
  useEffect(() => chosen.current?.scrollIntoView({ block: "nearest" }), [at, groups.length]);
  let index = -1;
  return (
    <div id="finder-choices" class="choices" role="listbox" aria-label="Found">
      {groups.map(([name, choices]) => (
        <div key={name} role="group" aria-label={name}>
          <h3 aria-hidden="true">{name}</h3>
          {choices.map((one) => {
            index += 1;
            return (
              <div
                key={`${one.href} ${one.name}`}
                id={`finder-${index}`}
                ref={index === at ? chosen : null}
                class="choice"
                role="option"
                aria-selected={index === at}
                onClick={() => open(one)}
              >
                <span class="id">{one.name}</span> <span class="muted">{one.note}</span>
              </div>
            );
          })}
        </div>
      ))}
    </div>
  );
}
