"""What an erasure has found in a log: every entry and recorded answer that may change."""

from __future__ import annotations

from msgspec import Struct

from ...core.codec import encode_entry, encode_outcome
from ...core.entries import Entry
from ...core.erased_names import is_claim
from ...core.erasure import Erasure, texts_of
from ...core.keyed import CLAIMS
from ...core.model import Record
from ...core.outcomes import Operation
from ..archive_erasing import ErasableArchive


class Trace(Struct):
    """What was found so far."""

    entries: dict[int, Entry] = {}
    """By number: every entry that may change."""
    answers: dict[tuple[int, int], Operation] = {}
    """Recorded answers that may change, by frame and place."""
    claims: set[str] = set()
    """The pools of the claims of erased holds, and the ids that such pools got in an earlier erasure."""
    reached: int = 0
    """The last frame that was read."""

    def look_at(self, erasure: Erasure, number: int, entry: Entry) -> None:
        """An entry may show that its hold is concerned, and which claims that has; or it names somebody, or tells of such a hold."""
        if entry.tenant != erasure.selector.tenant:
            return
        erasure.learn(entry)
        mine = entry.subject in erasure.holds
        if mine and entry.hold is not None:
            erasure.learn_birth(entry.hold)
        told = self._tells(erasure, entry.record) or erasure.is_beside(entry)
        if not mine and not told and not self._names(erasure, encode_entry(entry)):
            return
        self.entries[number] = entry
        legs = entry.hold.legs if entry.hold is not None else entry.change.legs if entry.change is not None else ()
        pools = {
            pool for pool in (*(leg.pool for leg in legs), *(one.pool.id for one in entry.effects)) if is_claim(pool)
        }
        if mine or not pools.isdisjoint(self.claims):  # whoever had the key of one of them may go with it
            self.claims |= {*pools, *map(erasure.new.taken_id, pools)}

    def look_at_answer(self, erasure: Erasure, frame: int, at: int, operation: Operation) -> None:
        """A recorded answer of a frame."""
        hold, record = getattr(operation.outcome, "hold", None), getattr(operation.outcome, "record", None)
        if operation.tenant == erasure.selector.tenant and (
            (hold is not None and hold.id in erasure.holds)
            or self._tells(erasure, record)
            or self._names(erasure, encode_outcome(operation.outcome))
        ):
            self.answers[frame, at] = operation

    def known(self, erasure: Erasure) -> tuple[int, ...]:
        """How much is known. As long as that grows, entries that were looked at before may be concerned too."""
        return (len(erasure.holds), len(self.claims), len(erasure.beside), erasure.records.concerned)

    def _tells(self, erasure: Erasure, record: Record | None) -> bool:
        """Whether a record tells of the person or of an erased hold."""
        return record is not None and (erasure.records.learn(record) or erasure.records.tells(record))

    def _names(self, erasure: Erasure, text: str) -> bool:
        """Whether a text names the person, one of the claims, or what an erasure has made of the account before."""
        selector, new = erasure.selector, erasure.new
        if any(one in text for one in texts_of(selector.value)) or erasure.stub in text:
            return True
        if selector.by == "account" and new.stored.accounts and new.first_stub in text:
            return True
        return CLAIMS in text and any(claim in text for claim in self.claims)


def first_claims(erasure: Erasure) -> set[str]:
    """The pool of a claim that is selected, and the id that it got in an earlier erasure."""
    selector = erasure.selector
    return {selector.value, erasure.new.taken_id(selector.value)} if selector.by == "claim" else set()


def check_baseline(erasure: Erasure, archive: ErasableArchive | None) -> None:
    """What the baseline says of the person must be in the archive."""
    if archive is not None:
        archive.check_baseline(erasure.selector.tenant, erasure.holds, texts_of(erasure.selector.value))
