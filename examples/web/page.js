"use strict";
// What the pages of the example applications share. Text from the server is only ever set as text, never as HTML.

const $ = id => document.getElementById(id);

/** Call the server; a POST has a retry key of its own. A refusal is an Error with the server's own words. */
async function call(path, body) {
  const headers = { "content-type": "application/json", "idempotency-key": JSON.stringify(crypto.randomUUID()) };
  const answer = await fetch(path, body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) });
  const document = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(document.detail || document.title), { status: answer.status, problem: document });
  return document;
}

let working = false;
/** Do one thing at a time: a click while another one is under way, as in a double click, does nothing. */
async function once(work) {
  if (working) return;
  working = true;
  try { await work(); } finally { working = false; }
}

let silent = false;
/** After each look at the server: say that it does not answer, and take that back once it does. */
function reached(name, error) {
  if (error) $("says").textContent = `${name} does not answer: ${error.message}`;
  else if (silent) $("says").textContent = `${name} answers again.`;
  silent = Boolean(error);
}

/** An element with a text. */
function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

/** Show names and values in a <dl>. */
function list(where, entries) {
  where.replaceChildren(...Object.entries(entries).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
}

/** Show rows in a <table>; the first is its head. */
function table(where, [head, ...rows]) {
  const row = (cells, kind) => { const made = document.createElement("tr"); made.append(...cells.map(cell => cell instanceof Node ? cell : element(kind, cell))); return made; };
  where.replaceChildren(row(head, "th"), ...rows.map(cells => row(cells, "td")));
}
