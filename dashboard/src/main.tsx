/** The entry point. */
import { render } from "preact";
import { App } from "./app";
import { startClock } from "./clock";
import { key, readKey } from "./key";
import { startKeyboard } from "./keyboard";
import { startRouting } from "./route";
import { startTheme } from "./theme";
import "./style.css";

readKey();
addEventListener("hashchange", () => {
  const before = key.peek();
  if (location.hash.startsWith("#key=")) {
    readKey();
    if (before !== key.peek()) location.reload();
  }
});
startRouting();
startTheme();
startClock();
startKeyboard();
const root = document.getElementById("root");
if (root) render(<App />, root);
