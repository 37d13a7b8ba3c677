# Generated from ../_async/journal.py by tools/gen_sync.py: do not edit.
"""`remote.journal`: reads the journal of a server, searches it and follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...core.model import MAX_SLOT
from ...core.validation import text, whole
from ...kernel._sync.background import Subscription
from ...kernel.follower_state import OnGeneration, Remember, check_following, check_remembering
from ...kernel.journal import Tenants, check_listener, of_all
from ...kernel.results import JournalEntry, JournalPage
from ...wire.journal import SEALED, EntryPage
from ..answers import ServerClock, entry_from
from ..stream import LocalState
from ..unsupported import NotRemote
from .executor import RemoteExecutor
from .following import RemoteFollower, RemoteSource
from .transport import RemoteCalls, Transport


class RemoteJournal(RemoteCalls):
    """The journal of the API key's tenant: the record of every change, in order."""

    def __init__(self, transport: Transport, clock: ServerClock, executor: RemoteExecutor) -> None:
        super().__init__(transport, clock)
        self._executor = executor

    def search(
        self,
        *,
        action: str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 100,
        tenant: Tenants = None,
        include_reserved: bool = False,
    ) -> JournalPage[JournalEntry]:
        """Return entries that match, newest first, or oldest first after a cursor. To read the next page, pass `next` in the same
        direction. Raises `CursorLost`. `include_reserved` works as in `list`."""
        page: EntryPage = self._do(
            "journal", action=action, subject=subject, actor=actor, correlation_id=correlation_id, before=before,
            after=after, limit=limit, all_tenants=True if of_all(tenant) else None,
            order="newest" if after is None else None, include_reserved=include_reserved or None,
        )  # fmt: skip
        return JournalPage(map(entry_from, page.items), next=page.next, cursor=page.cursor)

    def history(
        self, subject: str, *, after: str | None = None, limit: int = 1_000, archive: object = None
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries of the history of a pool, by its id, in journal order, after a cursor: with those of its holds.
        (`remote.history(hold)` is the history of a hold.) Raises `CursorLost`."""
        not_from_files(archive)
        return self._entry_pages("pool_history", text(subject, "subject", 512), limit=limit, after=after)

    def cursor(self, *, back: int = 0) -> str:
        """Return a cursor after everything that is in the journal now; with `back`, after that many entries fewer in each lane:
        entries of the key's tenant or, with an operator's key, of all tenants."""
        return self._follower(None).end(whole(back, "back", 0, MAX_SLOT))

    def follow(
        self,
        name: str | None = None,
        *,
        after: str | None = None,
        wait: bool = True,
        poll: float = 0.5,
        tenant: Tenants = None,
        remember: Remember | None = None,
        on_generation: OnGeneration | None = None,
    ) -> Iterator[JournalEntry]:
        """Yield entries as they are committed, none skipped and none twice, after the cursor `after` or from the beginning.
        Continues after a broken connection; ends on `close`, or with `wait=False` at the end of the journal. Raises
        `CursorLost`.

        With a `name` the server stores the cursor, and `after` counts only the first time; that needs a key of scope hold. An entry
        counts as seen once the loop asks for the first entry after its packet, so after a crash the last packet comes again (at least
        once). The server notifies at once: `poll` is for kernels in your own process. `tenant=ALL` follows all tenants, with a key of the
        default one; its names are separate from those of other followers. `remember` and `on_generation` work as in a kernel of your own
        process: the cursor behind what was shown is stored here, outside the server.
        """
        sealed = isinstance(after, str) and after.startswith(SEALED)  # the server reads it
        check_following(name, None if sealed else after, wait, poll)
        local = LocalState(check_remembering(name, remember, on_generation), on_generation)
        return self._follower(after, name, tenant, local).follow(wait)

    def on(
        self, action: str | None, callback: Callable[[JournalEntry], Any], *, tenant: Tenants = None
    ) -> Subscription[JournalEntry]:
        """Call back after each commit that did `action` ("hold.expired", or None for all), from now on, best effort.

        The server's stream feeds it, on a thread or task of its own, and it continues where it was after a broken
        connection. For deliveries that must survive this process use `follow` with a name. `tenant=ALL` covers all
        tenants, with a key of the default one.
        """
        check_listener(action, callback)
        if of_all(tenant):
            self._ask("list_tenants", limit=1)  # refused here, not in the background
        listener = RemoteSource(self._follower(self.cursor(), None, tenant))
        return Subscription(listener, self._executor.start_worker, action, callback)

    def _follower(
        self, after: str | None, name: str | None = None, tenant: Tenants = None, local: LocalState | None = None
    ) -> RemoteFollower:
        return RemoteFollower(self._transport, self._clock, after, name, of_all=of_all(tenant), local=local)

    def list(
        self,
        *,
        after: str | None = None,
        limit: int = 1_000,
        tenant: Tenants = None,
        include_reserved: bool = False,
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries in order, after a cursor or from the beginning. To read on, pass `next` of the page as `after`; it is
        None at the end. `cursor` of the page is never None: a program that comes back later for new entries passes that. Raises
        `CursorLost`. `tenant=ALL`, with a key of the default tenant: those of all tenants. `include_reserved`, with a key of scope
        admin of the default tenant: also the changes of API keys, tenants and webhooks."""
        return self._entry_pages(
            "journal", limit=limit, after=after, all_tenants=True if of_all(tenant) else None,
            include_reserved=include_reserved or None,
        )  # fmt: skip


def not_from_files(archive: object) -> None:
    """Refuse a directory of archived entries: it is beside the data."""
    if archive is not None:
        raise NotRemote("archive", "the files are beside the data; read them there with the command line's --archive")
