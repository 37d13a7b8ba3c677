/** The list of keyboard shortcuts. */
import { useEffect, useRef } from "preact/hooks";
import { helpShown } from "../keyboard";

const KEYS: [string, string][] = [
  ["/", "Find anything"],
  ["f", "Search in this view"],
  ["j  k", "Next, previous row"],
  ["Enter", "Open"],
  ["n  p", "Next, previous page"],
  ["Esc", "Close, clear, go back"],
  ["g p", "Go to pools"],
  ["g o", "Go to holds"],
  ["g j", "Go to the journal"],
  ["g c", "Go to claims"],
  ["g i", "Go to items"],
  ["g f", "Go to faces"],
  ["g s", "Go to sagas"],
  ["g h", "Go to health"],
  ["g w", "Go to webhooks"],
  ["g k", "Go to keys"],
  ["?", "Show these shortcuts"],
];

export function Help() {
  const box = useRef<HTMLDialogElement>(null);
  const shown = helpShown.value;
  useEffect(() => {
    if (shown) box.current?.showModal();
    else box.current?.close();
  }, [shown]);
  return (
    <dialog ref={box} class="dialog" aria-labelledby="help-title" onClose={() => (helpShown.value = false)}>
      <h2 id="help-title">Keyboard shortcuts</h2>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys
                .split(" ")
                .filter(Boolean)
                .map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div class="dialog-buttons">
        <button type="button" class="button" onClick={() => (helpShown.value = false)}>
          Close
        </button>
      </div>
    </dialog>
  );
}
