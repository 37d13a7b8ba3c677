# Generated from ../_async/journal_reads.py by tools/gen_sync.py: do not edit.
"""`hk.journal`: reads the journal, searches it in both directions, and follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from os import PathLike
from typing import Any

from ...core.archived import FindArchived
from ...core.entries import Action
from ...core.model import MAX_SLOT
from ...core.pages import Page
from ...core.personal import text_digest
from ...core.reading import FindEntries, ReadGeneration, ReadHistory, entry_of, touches
from ...core.searching import FoundEntries, SearchJournal
from ...core.validation import flag, invalid, text, whole
from ..follower_state import OnGeneration, Remember, check_following, check_remembering
from ..journal import JournalEntry, Tenants, check_listener, journal_entries, visible, whose
from ..journal_archive import JournalArchive
from ..pages import Positions, decode_cursor, encode_cursor
from ..results import JournalPage
from .background import JournalSource, Subscription
from .executor import Executor
from .following import Follower, end_of_journal
from .tracing import traced_listener


class Journal:
    """The journal of one tenant: the record of every change, in order."""

    def __init__(self, executor: Executor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant

    def search(
        self,
        *,
        action: Action | str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        before: str | None = None,
        after: str | None = None,
        limit: int = 100,
        tenant: Tenants = None,
        include_reserved: bool = False,
    ) -> JournalPage[JournalEntry]:
        """Return entries that match, newest first, from the end of the journal or in front of a cursor (`before`); or oldest first,
        after a cursor (`after`).

        The same cursor works in both directions. To read the next page, pass `next` of this one as `before`, or as `after` if you
        gave `after`. One call searches a bounded part of the journal, so a page may be empty and have a `next`. Entries of different
        lanes are in order of time within one page. Raises `CursorLost` if the journal was cut back. `include_reserved` works as in
        `list`.
        """
        whole(limit, "limit", 1, 1_000)
        flag(include_reserved, "include_reserved")
        if action is not None and action not in [*Action]:
            raise invalid("action", "action_unknown", f"must be one of {', '.join(Action)}")
        for field, value, most in (
            ("subject", subject, 600),
            ("actor", actor, 512),
            ("correlation_id", correlation_id, 512),
        ):
            if value is not None:
                text(value, field, most)
        if after is not None and before is not None:
            raise invalid("before", "before_ambiguous", "give either after or before, not both")
        cursor = before if after is None else after
        reader = whose(tenant, self._tenant)
        # Raises `CursorLost` unless the entries that the cursor saw are still there.
        Follower(self._executor, reader).begin(cursor, reads_on=after is not None)
        start = None if cursor is None else {lane: seq for lane, (seq, _) in decode_cursor(cursor).items()}
        wanted = None if action is None else Action(action)
        query = SearchJournal(
            reader, start, after is None, wanted, subject, actor, correlation_id, limit, self._executor.page_bytes
        )
        return self._matches(query, self._executor.read(query), cursor, include_reserved)

    def _matches(
        self, query: SearchJournal, matches: FoundEntries, cursor: str | None, include_reserved: bool
    ) -> JournalPage[JournalEntry]:
        """Return the entries of a search, each with the cursor after it, in the order of the query."""
        generation = self._executor.read(ReadGeneration())
        reached = self._positions(matches.reached)
        begins: Positions = reached if query.newest_first or cursor is None else decode_cursor(cursor)
        rows = matches.rows[::-1] if query.newest_first else matches.rows
        entries, _ = journal_entries(rows, begins, self._executor.now(), generation)
        shown = [*visible(entries, include_reserved)]
        end = encode_cursor(reached, generation)
        return JournalPage(
            reversed(shown) if query.newest_first else shown, next=end if matches.rows.more else None, cursor=end
        )

    def _positions(self, numbers: Mapping[int, int]) -> dict[int, tuple[int, str]]:
        """Return these places in the journal, with the digests of the entries in front of them where those are kept."""
        wanted = tuple((lane, seq) for lane, seq in numbers.items() if seq)
        rows = self._executor.read(FindEntries(wanted)) if wanted else []
        seen = {(row.lane, row.seq): text_digest(row.text) for row in rows}
        return {lane: (seq, seen.get((lane, seq), "")) for lane, seq in wanted}

    def history(
        self,
        subject: str,
        *,
        after: str | None = None,
        limit: int = 1_000,
        archive: str | PathLike[str] | None = None,
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries of the history of a pool, by its id, in journal order, after a cursor. (`hk.history(hold)` is
        the history of a hold.)

        It has the entries that changed the pool or moved its units, so those of its holds too, without their extensions. The journal
        is searched for them, so the time grows with everything that was written meanwhile. Raises `CursorLost` if the journal was
        cut back.

        If the first entries are archived, an entry `journal.baseline` stands for them, and `JournalEntry.archived_to` says where they
        are. With `archive`, that directory, they are read from there: all its files, which takes its time.
        """
        whole(limit, "limit", 1, 10_000)
        text(subject, "subject", 600)
        if archive is not None:
            return archived_history(self._executor, self._tenant, subject, after, limit, JournalArchive(archive))
        return _any_history(self._executor, self._tenant, subject, after, limit)

    def cursor(self, *, back: int = 0) -> str:
        """Return a cursor after everything that is in the journal now; with `back`, after that many entries fewer in each lane."""
        return end_of_journal(self._executor, whole(back, "back", 0, MAX_SLOT))

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
        """Yield entries as they are committed, none skipped, after the cursor `after` or from the beginning.

        With a `name` the cursor is saved durably, and `after` applies only the first time. An entry counts as seen once the
        loop has asked for the first entry after its page, so after a crash the last page comes again (at least once).
        Commits of this kernel wake the follower at once, those of other processes within `poll` seconds. It ends on `close`, or
        with `wait=False` at the end of the journal. Raises `CursorLost` if the journal was cut back, or if entries after the cursor
        were archived. `tenant=ALL` follows all tenants, on a kernel without one; such followers have names of their own.

        Where commits wait for standbys, an entry comes when these have it. Until then the follower tries again by itself; with
        `wait=False` it raises `Overloaded`.

        A saved cursor is cut back together with the journal. `remember` (a file, or a `CursorStore`) keeps outside of the
        database what is about to be shown: if entries that were shown are missing when the follower begins again, `CursorLost`
        is raised. Without it, `on_generation(before, now)` is called, and a warning logged, if the cursor was saved in another
        generation.
        """
        check_following(name, after, wait, poll)
        store = check_remembering(name, remember, on_generation)
        follower = Follower(
            self._executor,
            whose(tenant, self._tenant),
            name,
            store=store,
            on_generation=on_generation,
            durable=True,
        )
        follower.begin(after)
        for entry in follower.follow(None, wait, poll):
            yield entry

    def on(
        self, action: str | None, callback: Callable[[JournalEntry], Any], *, tenant: Tenants = None
    ) -> Subscription[JournalEntry]:
        """Call back after each commit that did `action` ("hold.expired", or None for all), from now on, best effort.

        The journal feeds it, on a thread or task of its own: it can neither fail nor delay the call that caused the entry.
        For deliveries that must survive this process use `follow` with a name. `tenant=ALL` listens to all tenants.
        """
        check_listener(action, callback)
        source = JournalSource(self._executor, whose(tenant, self._tenant), self.cursor())
        called = callback if self._executor.tracer is None else traced_listener(self._executor, callback)
        return Subscription(source, self._executor.start_worker, action, called)

    def list(
        self,
        *,
        after: str | None = None,
        limit: int = 1_000,
        tenant: Tenants = None,
        include_reserved: bool = False,
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries in order, after a cursor or from the beginning; none only at the end.

        To read on, pass `next` of the page as `after`; it is None at the end. `cursor` of the page is never None: a program that comes
        back later for new entries passes that. `tenant=ALL` reads all tenants. `include_reserved` adds the changes of a server's API
        keys, tenants and webhooks, but not what their records say.

        Raises `CursorLost` if the journal was cut back, or if entries after the cursor were archived.
        """
        whole(limit, "limit", 1, 10_000)
        flag(include_reserved, "include_reserved")
        follower = Follower(self._executor, whose(tenant, self._tenant), include_reserved=include_reserved)
        return _page_of(follower, read_page(follower, after, limit))


def read_page(follower: Follower, after: str | None, limit: int) -> Page[JournalEntry]:
    """Return a page after a cursor; empty only at the end."""
    follower.begin(after)
    while True:
        entries = follower.page(limit)
        if entries or follower.at_end:
            return entries


def _page_of(follower: Follower, entries: Page[JournalEntry]) -> JournalPage[JournalEntry]:
    """Return the page that a follower has just read."""
    end = follower.cursor()
    return JournalPage(entries, next=None if follower.at_end else end, cursor=end)


def _any_history(
    executor: Executor, tenant: str, name: str, after: str | None, limit: int
) -> JournalPage[JournalEntry]:
    """Return the history of a pool, or of another subject that has the name."""
    first = executor.read(ReadHistory(tenant, name, 1))
    if not first or not touches(entry_of(first[0]), name):
        return subject_history(executor, tenant, name, after, limit)
    follower = Follower(executor, tenant, pool=(tenant, name))
    return _page_of(follower, read_page(follower, after, limit))


def subject_history(
    executor: Executor, tenant: str, subject: str, after: str | None, limit: int
) -> JournalPage[JournalEntry]:
    """Return the entries that name a subject, such as the id of a hold."""
    positions = {} if after is None else decode_cursor(after)
    seen = {lane: seq for lane, (seq, _) in positions.items()}
    rows = executor.read(ReadHistory(tenant, subject, limit, seen, executor.page_bytes))
    entries, _ = journal_entries(rows, positions, executor.now())
    end = entries[-1].cursor if entries else encode_cursor(positions)
    return JournalPage(entries, next=end if rows.more else None, cursor=end)


def archived_history(
    executor: Executor, tenant: str, name: str, after: str | None, limit: int, archive: JournalArchive
) -> JournalPage[JournalEntry]:
    """Return entries about a pool or a hold from the files, then those of the journal."""
    positions: Positions = {} if after is None else decode_cursor(after)
    through = {lane.lane: lane.through for lane in executor.read(FindArchived())}
    rows = executor.run_blocking(lambda: [*islice(archive.about(tenant, name, positions, through), limit)])
    entries, positions = journal_entries(rows, positions, executor.now())
    if len(entries) == limit:
        end = entries[-1].cursor
        return JournalPage(entries, next=end, cursor=end)
    archived = {lane: (max(seq, positions.get(lane, (0, ""))[0]), "") for lane, seq in through.items()}
    behind = encode_cursor({**positions, **archived})
    page = _any_history(executor, tenant, name, behind, limit - len(entries))
    return JournalPage([*entries, *page], next=page.next, cursor=page.cursor)
