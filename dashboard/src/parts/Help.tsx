/** What the keys do. */
import { useEffect, useRef } from "preact/hooks";
import { helping } from "../keyboard";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["j  k", "next, previous"],
  ["Enter", "open"],
  ["Esc", "close, clear, go back"],
  ["g p", "pools"],
  ["g j", "journal"],
  ["g c", "claims"],
  ["g i", "items"],
  ["g s", "sagas"],
  ["g h", "health"],
  ["?", "this"],
];

export function Help() {
  const box = useRef<HTMLDialogElement>(null);
  const shown = helping.value;
  useEffect(() => {
    if (shown) box.current?.showModal();
    else box.current?.close();
  }, [shown]);
  return (
    <dialog ref={box} class="dialog" aria-labelledby="help-title" onClose={() => (helping.value = false)}>
      <h2 id="help-title">Keys</h2>
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
        <button type="button" class="button" onClick={() => (helping.value = false)}>
          Close
        </button>
      </div>
    </dialog>
  );
}
