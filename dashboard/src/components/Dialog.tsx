/** A dialog that asks before something is changed. Escape and a click outside dismiss it without a change. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { newOperationId, Problem } from "../api";
import { adviceOf } from "./Notice";
import { showToast } from "./Toast";

export interface Question {
  title: string;
  body: ComponentChildren;
  verb: string;
  danger?: boolean;
  /** The label of the button that dismisses the dialog. */
  dismiss?: string;
  /** Makes the change, given the fields by name and the idempotency key; returns the message to show afterwards. */
  act: (fields: Record<string, string>, op: string) => Promise<string>;
}

const question = signal<Question | null>(null);

export function confirmAction(asked: Question): void {
  question.value = asked;
}

export const dialogOpen = (): boolean => question.value !== null;

export function Dialogs() {
  const asked = question.value;
  return asked && <Ask key={asked.title} asked={asked} />;
}

function Ask({ asked }: { asked: Question }) {
  const box = useRef<HTMLDialogElement>(null);
  // One idempotency key per set of values: pressing the button again after an unknown outcome cannot make the change twice.
  const tried = useRef<{ said: string; op: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<Problem | null>(null);
  useEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      dialog?.close(); // while it is open, nothing else can take the focus
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const close = (): void => {
    question.value = null;
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const fields: Record<string, string> = {};
    for (const [name, value] of new FormData(event.currentTarget as HTMLFormElement)) fields[name] = String(value);
    const said = JSON.stringify(fields);
    if (tried.current?.said !== said) tried.current = { said, op: newOperationId() };
    setBusy(true);
    setWrong(null);
    try {
      showToast(await asked.act(fields, tried.current.op));
      close();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
      if (problem.effect === "none") tried.current = null; // the outcome is known: another attempt is another operation
      setWrong(problem);
      setBusy(false);
    }
  };
  return (
    <dialog
      ref={box}
      class="dialog"
      aria-labelledby="dialog-title"
      onCancel={close}
      onClick={(event) => event.target === box.current && close()}
    >
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="dialog-title">{asked.title}</h2>
        {asked.body}
        {wrong && (
          <p class="wrong" role="alert">
            <strong>{wrong.message}.</strong> {adviceOf(wrong)} <code>{wrong.reason}</code>
          </p>
        )}
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={close}>
            {asked.dismiss ?? "Cancel"}
          </button>
          <button type="submit" class={asked.danger ? "button danger" : "button primary"} disabled={busy}>
            {busy ? "Working…" : asked.verb}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface FieldProps {
  name: string;
  label: string;
  hint?: string;
  value?: string;
  type?: "text" | "number" | "password";
  min?: number;
  max?: number;
  required?: boolean;
}

export function Field({ name, label, hint, value, type = "text", min, max, required = true }: FieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        type={type}
        defaultValue={value}
        min={min}
        max={max}
        required={required}
        autocomplete="off"
        spellcheck={false}
        maxLength={512}
      />
      {hint && <small>{hint}</small>}
    </label>
  );
}
