/** Claims, items and sagas. */
import { Notice } from "../parts/Notice";
import { Head } from "../parts/Shell";

export function Claims() {
  return (
    <Absent title="Claims" what="A claim is a name that one owner has: an e-mail address, a user name, a coupon." />
  );
}

export function Items() {
  return (
    <Absent
      title="Items"
      what="Items are single things that many are held of at once: postings, vouchers, seats by number."
    />
  );
}

export function Sagas() {
  return <Absent title="Sagas" what="A saga is work of several steps that is driven to its end after any crash." />;
}

function Absent({ title, what }: { title: string; what: string }) {
  return (
    <>
      <Head title={title} />
      <Notice title="This server does not show them">
        <p>{what}</p>
      </Notice>
    </>
  );
}
