# Generated from ../_async/journal.py by tools/gen_sync.py: do not edit.
"""The journal from the caller's side: a subject's history, pages, followers."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from ...core.codec import is_ticket
from ...core.model import MAX_SLOT
from ...core.reading import ReadGeneration, ReadHistory, entry_of, touches
from ...core.validation import invalid, text, whole
from ..cursor import decode_cursor
from ..follower_state import CursorStore, OnGeneration, Remember, store_of
from ..normalise import hold_id, reference
from ..results import Hold, JournalEntry
from ..tenants import Tenants, whose
from .calls import Calls
from .following import Follower, end_of_journal
from .named_follower import MAX_NAME
from .verbs import Verbs


class Journal(Calls, Verbs):
    """Everything that reads the journal."""

    def history(
        self, subject: Hold | str | UUID, *, after: str | None = None, limit: int = 1_000
    ) -> list[JournalEntry]:
        """All that happened to a hold, or to a pool by its id: in journal order, behind a cursor (the `cursor` of an entry).

        A hold's is given whole. A pool's is all that changed it or moved units of it, so the holds on it too, without their
        extensions: up to `limit` entries, none only at the end. It is searched for in the journal, so a pool that little
        happens to takes as long as all that happened beside it. Raises `CursorLost` if the journal was cut back.
        """
        whole(limit, "limit", 1, 10_000)
        name = subject if isinstance(subject, str) and not is_ticket(subject) else reference(subject, None)[0]
        first = self._executor.read(ReadHistory(self._tenant, text(name, "subject", 600), 1))
        if not first and hold_id(name) != name:  # a hold's id, spelled as UUIDs often are
            name = hold_id(name)
        elif first and touches(entry_of(first[0]), name):  # a pool's own first entry
            return self._page(Follower(self._executor, self._tenant, pool=(self._tenant, name)), after, limit)
        place = {} if after is None else decode_cursor(after)
        rows = self._executor.read(ReadHistory(self._tenant, name))
        now = self._executor.now()
        return [JournalEntry(row, {}, now) for row in rows if row.seq > place.get(row.lane, (0, ""))[0]]

    def journal(self, *, after: str | None = None, limit: int = 1_000, tenant: Tenants = None) -> list[JournalEntry]:
        """Up to `limit` entries in order, behind a cursor (the `cursor` of an entry); none only at the end. `tenant=ALL`:
        of all tenants.

        Raises `CursorLost` if the journal was cut back.
        """
        whole(limit, "limit", 1, 10_000)
        return self._page(Follower(self._executor, whose(tenant, self._tenant)), after, limit)

    def _page(self, follower: Follower, after: str | None, limit: int) -> list[JournalEntry]:
        follower.begin(after)
        while True:
            entries = follower.page(limit)
            if entries or follower.at_end:
                return entries

    def cursor(self, *, back: int = 0) -> str:
        """A cursor behind everything that is in the journal now, or with `back` so many entries earlier in each lane."""
        return end_of_journal(self._executor, whole(back, "back", 0, MAX_SLOT))

    def generation(self) -> str:
        """Which life of the journal this is: an opaque word that a promotion, a restore or an import changes."""
        return self._executor.read(ReadGeneration())

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
        """Entries as they happen, none skipped, behind the cursor `after` or from the beginning.

        With a `name` the place is kept durably, and `after` counts only the first time. An entry counts as seen once the
        loop has asked for the next one behind its page, so after a crash the last page comes again (at least once).
        Woken at once by commits of this kernel, within `poll` seconds by those of other processes; ends on `close`, or
        with `wait=False` at the end of the journal. Raises `CursorLost` if the journal was cut back. `tenant=ALL` follows all
        tenants, on a kernel without one; its names are apart from those of other followers.

        A named place is cut back together with the journal. `remember` (a file, or a `CursorStore`) notes outside of the
        database what is about to be shown: entries that were shown and are gone when it begins again are a `CursorLost`.
        Without it, `on_generation(before, now)` is called, and a warning logged, where the place was kept in another generation.
        """
        check_following(name, after, wait, poll)
        store = check_remembering(name, remember, on_generation)
        follower = Follower(self._executor, whose(tenant, self._tenant), name, store=store, on_generation=on_generation)
        follower.begin(after)
        for entry in follower.follow(None, wait, poll):
            yield entry


def check_following(name: object, after: object, wait: object, poll: object) -> None:
    """What `follow` takes."""
    if name is not None:
        text(name, "name", MAX_NAME)
    if after is not None:
        decode_cursor(after)
    if type(wait) is not bool:
        raise invalid("wait", "wait_not_boolean", "must be True or False")
    if not isinstance(poll, int | float) or type(poll) is bool or not 0 < poll <= 3_600:
        raise invalid("poll", "poll_out_of_range", "must be seconds above 0, at most an hour")


def check_remembering(name: object, remember: object, on_generation: object) -> CursorStore | None:
    """The store of a named follower, if it has one."""
    if on_generation is not None and not callable(on_generation):
        said = f"must be a function, not {type(on_generation).__name__}"
        raise invalid("on_generation", "callback_not_callable", said)
    store = store_of(remember)
    if store is not None and name is None:
        raise invalid(
            "remember", "name_required", "is for named followers: else keep the cursor of the last entry yourself"
        )
    return store
