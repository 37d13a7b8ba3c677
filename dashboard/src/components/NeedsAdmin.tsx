/** In place of a view that the API key may not see. */
import { Notice } from "./Notice";
import { Head } from "./Shell";

export function NeedsAdmin({ title, what }: { title: string; what: string }) {
  return (
    <>
      <Head title={title} />
      <Notice title="Not allowed with this API key">
        <p class="muted">
          To see and change {what}, sign in with a key of scope admin without a limit to pools or verbs.
        </p>
      </Notice>
    </>
  );
}
