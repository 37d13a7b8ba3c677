/** Secrets that an action has just made. They are shown once: when the dialog is closed, the page no longer has them. */
import { useState } from "preact/hooks";

export interface Secret {
  label: string;
  value: string;
}

interface Props {
  said: string;
  secrets: Secret[];
  close: () => void;
}

export function Secrets({ said, secrets, close }: Props) {
  return (
    <div data-secrets>
      <h2 id="dialog-title">{said}</h2>
      <p>Store this now: a secret is shown only once, and nobody can read it again.</p>
      {secrets.map((one) => (
        <OneSecret key={one.label} {...one} />
      ))}
      <div class="dialog-buttons">
        <button type="button" class="button primary" onClick={close}>
          I have stored it
        </button>
      </div>
    </div>
  );
}

function OneSecret({ label, value }: Secret) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(value).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  };
  return (
    <div class="secret">
      <label class="field">
        <span>{label}</span>
        <input readOnly value={value} spellcheck={false} onFocus={(event) => event.currentTarget.select()} />
      </label>
      {/* pages that were served without TLS have no clipboard: the text can be selected */}
      {typeof navigator.clipboard !== "undefined" && (
        <button type="button" class="button small" onClick={() => void copy()}>
          {copied ? "Copied" : "Copy"}
        </button>
      )}
    </div>
  );
}
