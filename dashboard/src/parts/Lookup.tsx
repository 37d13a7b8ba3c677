/** Views that are looked things up in: a search field, and what was found, or why there is nothing. */
import { type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Icon } from "./Icon";
import { Notice } from "./Notice";
import { Head } from "./Shell";

interface Props {
  title: string;
  placeholder: string;
  sought: Signal<string>;
  more?: ComponentChildren;
  children: ComponentChildren;
}

export function Lookup({ title, placeholder, sought, more, children }: Props) {
  return (
    <>
      <Head title={title} />
      <div class="tools">
        <label class="search wide">
          <Icon name="search" />
          <input
            type="search"
            aria-label={`Search ${title.toLowerCase()}`}
            placeholder={placeholder}
            value={sought.value}
            maxLength={4_096}
            onInput={(event) => (sought.value = event.currentTarget.value)}
          />
          <kbd>/</kbd>
        </label>
        {more}
      </div>
      {children}
    </>
  );
}

export function NotOffered({ title, what }: { title: string; what: string }) {
  return (
    <>
      <Head title={title} />
      <Notice title="This server does not show them">
        <p>{what}</p>
        <p class="muted">A later release of the server does. The journal has all that happened to them.</p>
      </Notice>
    </>
  );
}
