/** The sign-in form: asks for an API key, and says why the last one was refused. */
import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { offered, setKey } from "../key";
import { Logo } from "./Shell";

export function SignIn({ refused, signIn }: { refused: Problem | null; signIn: () => void }) {
  const [text, setText] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text.trim() === "") return;
    offered.value = null;
    setKey(text);
    setText("");
    signIn();
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <Logo />
        <h1>{refused?.reason === "key_refused" ? "API key not accepted" : "Sign in"}</h1>
        <p>
          {offered.value === "malformed"
            ? "The link does not contain a valid API key: perhaps it was cut off. Open the whole link, or enter a key."
            : refused?.reason === "key_refused"
              ? "The key is unknown, revoked or expired. Enter another one."
              : "Enter an API key for this server. It is kept in this tab only, until you close it."}
        </p>
        <label class="field">
          <span>API key</span>
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
          Sign in
        </button>
        <p class="muted small">
          No key yet? Run <code>holdkit keys make me --scope admin</code> where the server runs. <code>make run</code>{" "}
          prints an address that contains one.
        </p>
      </form>
    </main>
  );
}
