/** What faces have: calendars, budgets, rates, resources, seats and accounts by name; and the way to claims, items and sagas. */
import { ask } from "../api";
import { FACES, faceLink, present, useFaces, type Face } from "../faces";
import { Notice } from "../components/Notice";
import { ReadState } from "../components/ReadState";
import { Head } from "../components/Shell";
import { ShowMore } from "../components/ShowMore";
import { link } from "../route";
import { revision } from "../store";
import type { NamePage } from "../types";
import { usePages } from "../usePages";

const NAMES = 12;
const LISTED: Face[] = ["calendars", "budgets", "rates", "resources", "sections", "accounts"];

export function Faces() {
  const faces = useFaces();
  return (
    <>
      <Head title="Faces" />
      <ReadState
        read={faces}
        what="what faces have"
        isEmpty={(found) => present(found).length === 0}
        empty={
          <Notice title="Nothing of any face yet">
            <p class="muted">
              Faces are interfaces for one use case on top of holds: claims, items, calendars, budgets, resources,
              sagas. What an application holds through them is shown here.
            </p>
          </Notice>
        }
      >
        {(found) => (
          <div class="faces">
            {present(found).map((face) => (
              <section class="card" key={face}>
                <h2>{LISTED.includes(face) ? FACES[face].title : <a href={faceLink(face)}>{FACES[face].title}</a>}</h2>
                <p class="muted small">{FACES[face].about}</p>
                {LISTED.includes(face) && <Names face={face} />}
              </section>
            ))}
          </div>
        )}
      </ReadState>
    </>
  );
}

function Names({ face }: { face: Face }) {
  const path = face === "accounts" ? "v1/accounts" : "v1/faces/names";
  const pages = usePages<string>(
    face,
    (after, signal) =>
      ask<NamePage>(path, { query: { face: face === "accounts" ? undefined : face, after, limit: NAMES }, signal }),
    () => void revision.value,
  );
  return (
    <ReadState
      part
      read={pages.read}
      what={FACES[face].title.toLowerCase()}
      isEmpty={(page) => page.items.length === 0}
      empty={<p class="muted">None.</p>}
    >
      {(page) => (
        <>
          <ul class="names" aria-label={FACES[face].title}>
            {page.items.map((name) => (
              <li key={name}>
                <a class="id" href={link(FACES[face].view, name)}>
                  <bdi>{name}</bdi>
                </a>
              </li>
            ))}
          </ul>
          <ShowMore pages={pages} />
        </>
      )}
    </ReadState>
  );
}

/** For a page that has nothing to show: what there is instead, with links. */
export function WhatThereIs() {
  const { value, error } = useFaces();
  if (value === null)
    return error === null ? null : <p class="muted">Whether there is anything of the faces could not be read.</p>;
  const found = present(value);
  if (found.length === 0) return null;
  return (
    <p data-there-is>
      There is something else, though:{" "}
      {found.map((face, index) => (
        <>
          {index > 0 && ", "}
          <a href={faceLink(face)}>{FACES[face].title.toLowerCase()}</a>
        </>
      ))}
      .
    </p>
  );
}
