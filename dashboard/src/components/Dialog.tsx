/**
 * The dialog of every action. An action is described by an `ActionForm`; this file asks for its fields and a reason, shows what
 * will happen, makes the change, and reports the result.
 *
 * - One idempotency key stands for one set of values. It is kept until the outcome is known, also if the dialog is closed
 *   meanwhile, so neither a double click nor another attempt after a lost answer makes a change twice.
 * - An answer that did not come is reported as unknown, with a way to look.
 * - A secret is shown once, in the dialog that made it, and exists nowhere else in the page.
 *
 * Escape and a click outside dismiss the dialog without a change.
 */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { newOperationId, Problem } from "../api";
import { adviceOf, reasonOf } from "./Notice";
import { Secrets, type Secret } from "./Secrets";
import { showToast } from "./Toast";

export type Fields = Record<string, string>;

export interface FieldSpec {
  name: string;
  label: string;
  hint?: string;
  value?: string;
  type?: "text" | "number" | "password";
  min?: number;
  max?: number;
  /** Characters at most. */
  longest?: number;
  required?: boolean;
  /** The values to choose from, each with its label. */
  options?: [string, string][];
}

export interface Done {
  /** The message to show afterwards. */
  said: string;
  secrets?: Secret[];
}

export interface ActionForm<Facts = null> {
  title: string;
  verb: string;
  danger?: boolean;
  /** The label of the button that dismisses the dialog. */
  dismiss?: string;
  /** What the action is about, such as the id of a hold. */
  subject?: string;
  fields?: FieldSpec[];
  /** Asked for unless the action changes nothing that is journaled. */
  reason?: false;
  /** Reads what the effect depends on. */
  facts?: (signal: AbortSignal) => Promise<Facts>;
  /** What will happen, sentence by sentence, given the fields as they are. */
  effect: (fields: Fields, facts: Facts) => string[];
  /** Makes the change under an idempotency key. */
  act: (fields: Fields, op: string) => Promise<Done | string>;
  /** Reads again what the change may have changed. */
  after?: () => void;
}

const REASON: FieldSpec = { name: "reason", label: "Reason", hint: "Recorded in the journal, with your API key" };
const asked = signal<ActionForm<unknown> | null>(null);
/** The idempotency keys of changes whose outcome is unknown, by form and values. */
const unsettled = new Map<string, string>();
const MOST_UNSETTLED = 100;

export function confirmAction<Facts>(form: ActionForm<Facts>): void {
  asked.value = form as ActionForm<unknown>;
}

export const dialogOpen = (): boolean => asked.value !== null;

export function Dialogs() {
  const form = asked.value;
  return form && <Ask key={`${form.title} ${form.subject ?? ""}`} form={form} />;
}

/** The same change has the same name, whatever reason is given for it. */
function nameOf(form: ActionForm<unknown>, { reason: _reason, ...values }: Fields): string {
  return JSON.stringify([form.title, form.subject, values]);
}

function operationOf(name: string): string {
  const op = unsettled.get(name) ?? newOperationId();
  unsettled.set(name, op);
  if (unsettled.size > MOST_UNSETTLED) unsettled.delete(unsettled.keys().next().value ?? "");
  return op;
}

const fieldsOf = (form: HTMLFormElement): Fields =>
  Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));

function Ask({ form }: { form: ActionForm<unknown> }) {
  const box = useRef<HTMLDialogElement>(null);
  const open = useRef(true);
  const busy = useRef(false);
  const [working, setWorking] = useState(false);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [secrets, setSecrets] = useState<Done | null>(null);
  useEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      open.current = false;
      dialog?.close(); // while it is open, nothing else can take the focus
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const close = (): void => {
    if (asked.peek() === form) asked.value = null;
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (busy.current) return; // a second click before the button was disabled
    busy.current = true;
    const fields = fieldsOf(event.currentTarget as HTMLFormElement);
    const name = nameOf(form, fields);
    setWorking(true);
    setWrong(null);
    try {
      const result = await form.act(fields, operationOf(name));
      unsettled.delete(name);
      const done = typeof result === "string" ? { said: result } : result;
      showToast(done.said);
      form.after?.();
      if (done.secrets && open.current) setSecrets(done);
      else close();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
      if (problem.effect === "none") unsettled.delete(name); // another attempt is another operation
      if (!open.current)
        showToast(`${form.title}: ${isUnknown(problem) ? "the outcome is unknown" : problem.message}.`);
      setWrong(problem);
    }
    busy.current = false;
    setWorking(false);
  };
  const look = (): void => {
    form.after?.();
    showToast(
      `${form.title}: the outcome is unknown. Look at what is shown here, or try again: nothing is done twice.`,
    );
    close();
  };
  return (
    <dialog
      ref={box}
      class="dialog"
      aria-labelledby="dialog-title"
      onCancel={(event) => (secrets ? event.preventDefault() : close())}
      onClose={close}
      onClick={(event) => event.target === box.current && !secrets && close()}
    >
      {secrets?.secrets ? (
        <Secrets said={secrets.said} secrets={secrets.secrets} close={close} />
      ) : (
        <Form form={form} submit={(event) => void submit(event)}>
          {wrong && <Wrong problem={wrong} />}
          <div class="dialog-buttons">
            <button type="button" class="button" onClick={close}>
              {form.dismiss ?? "Cancel"}
            </button>
            {wrong && isUnknown(wrong) && (
              <button type="button" class="button" onClick={look}>
                Look
              </button>
            )}
            <button type="submit" class={form.danger ? "button danger" : "button primary"} disabled={working}>
              {working ? "Working…" : form.verb}
            </button>
          </div>
        </Form>
      )}
    </dialog>
  );
}

const isUnknown = (problem: Problem): boolean => problem.effect === "unknown";

function Wrong({ problem }: { problem: Problem }) {
  if (isUnknown(problem))
    return (
      <p class="wrong" role="alert" data-unknown>
        <strong>Unknown: {problem.message}.</strong> The change may or may not have been made. Trying again with the
        same values is safe: it is not made twice. <code>{problem.reason}</code>
      </p>
    );
  return (
    <p class="wrong" role="alert">
      <strong>{problem.message}.</strong> {adviceOf(problem, true)} <code>{problem.reason}</code>
    </p>
  );
}

interface FormProps {
  form: ActionForm<unknown>;
  submit: (event: SubmitEvent) => void;
  children: ComponentChildren;
}

function Form({ form, submit, children }: FormProps) {
  const specs = [...(form.fields ?? []), ...(form.reason === false ? [] : [REASON])];
  const [fields, setFields] = useState<Fields>(() =>
    Object.fromEntries(specs.map((one) => [one.name, one.value ?? one.options?.[0]?.[0] ?? ""])),
  );
  return (
    <form onSubmit={submit} onInput={(event) => setFields(fieldsOf(event.currentTarget))}>
      <h2 id="dialog-title">{form.title}</h2>
      {form.subject !== undefined && (
        <p>
          <code class="id">{form.subject}</code>
        </p>
      )}
      <Effect form={form} fields={fields} />
      {specs.map((one) => (
        <Field key={one.name} {...one} />
      ))}
      {children}
    </form>
  );
}

/** What will happen, as things are now. */
function Effect({ form, fields }: { form: ActionForm<unknown>; fields: Fields }) {
  const [read, setRead] = useState<{ facts: unknown } | { error: unknown } | null>(form.facts ? null : { facts: null });
  useEffect(() => {
    const aborter = new AbortController();
    form
      .facts?.(aborter.signal)
      .then((facts) => setRead({ facts }))
      .catch((error: unknown) => aborter.signal.aborted || setRead({ error }));
    return () => aborter.abort();
  }, [form]);
  if (read === null) return <p class="effect-text muted">Reading what will happen…</p>;
  if ("error" in read)
    return <p class="effect-text wrong">What will happen could not be read: {reasonOf(read.error)}.</p>;
  return (
    <div class="effect-text" aria-live="polite" data-effect>
      {form.effect(fields, read.facts).map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
    </div>
  );
}

function Field({ name, label, hint, value, type = "text", min, max, longest, required = true, options }: FieldSpec) {
  return (
    <label class="field">
      <span>{label}</span>
      {options ? (
        <select name={name}>
          {options.map(([one, said]) => (
            <option key={one} value={one} selected={one === value}>
              {said}
            </option>
          ))}
        </select>
      ) : (
        <input
          name={name}
          type={type}
          defaultValue={value}
          min={min}
          max={max}
          required={required}
          autocomplete="off"
          spellcheck={false}
          maxLength={longest ?? 512}
        />
      )}
      {hint && <small>{hint}</small>}
    </label>
  );
}
