/** The frame of a view with a search field and its results, and the notice for a view that the server does not support. */
import { useSignalEffect, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Icon } from "./Icon";
import { Notice } from "./Notice";
import { Head } from "./Shell";
import { noteInAddress } from "../route";

interface Props {
  title: string;
  placeholder: string;
  searchText: Signal<string>;
  more?: ComponentChildren;
  children: ComponentChildren;
}

export function SearchView({ title, placeholder, searchText, more, children }: Props) {
  useSignalEffect(() => noteInAddress(title.toLowerCase(), { q: searchText.value }));
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
            value={searchText.value}
            maxLength={4_096}
            onInput={(event) => (searchText.value = event.currentTarget.value)}
          />
          <kbd>f</kbd>
        </label>
        {more}
      </div>
      {children}
    </>
  );
}

export function NotSupported({ title, what }: { title: string; what: string }) {
  return (
    <>
      <Head title={title} />
      <Notice title={`This server does not support ${title.toLowerCase()}`}>
        <p>{what}</p>
        <p class="muted">A newer release of the server does. The journal records everything that happens to them.</p>
      </Notice>
    </>
  );
}
