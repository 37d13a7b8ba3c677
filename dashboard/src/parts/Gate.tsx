/** Asks for a key, and says why. */
import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { setKey } from "../key";
import { Mark } from "./Shell";

export function Gate({ refused, enter }: { refused: Problem | null; enter: () => void }) {
  const [text, setText] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text.trim() === "") return;
    setKey(text);
    setText("");
    enter();
  };
  return (
    <main class="gate">
      <form class="card" onSubmit={submit}>
        <Mark />
        <h1>{refused?.reason === "key_refused" ? "This key does not open it" : "A key, please"}</h1>
        <p>
          {refused?.reason === "key_refused"
            ? "It is unknown, revoked or expired. Paste another one."
            : "Paste a key of this server. It stays in this tab, and goes when you close it."}
        </p>
        <label class="field">
          <span>Key</span>
          <input
            ref={(field) => field?.focus()}
            type="password"
            placeholder="hk_…"
            value={text}
            autocomplete="off"
            spellcheck={false}
            maxLength={200}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button primary wide">
          Open
        </button>
        <p class="muted small">
          No key yet? Where the server runs: <code>holdkit keys make me --scope admin</code>. <code>make run</code>{" "}
          prints one with its address.
        </p>
      </form>
    </main>
  );
}
