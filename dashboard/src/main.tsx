/** The entry point. */
import { render } from "preact";
import { App } from "./app";
import { startClock } from "./clock";
import { readKey } from "./key";
import { startKeyboard } from "./keyboard";
import { startRouting } from "./route";
import { startTheme } from "./theme";
import "./style.css";

readKey();
addEventListener("hashchange", () => readKey(true));
startRouting();
startTheme();
startClock();
startKeyboard();
const root = document.getElementById("root");
if (root) render(<App />, root);
