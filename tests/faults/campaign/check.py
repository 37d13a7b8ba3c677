"""The check: every ledger against the journal that survived.

Linear in both: each entry of the journal carries the correlation id of the attempt that caused it, so every effect is found
by its attempt, whether or not there was an operation id.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

import holdkit
from holdkit.core.model import State
from tests.faults.campaign.callers import EFFECTS, TOTALS
from tests.faults.campaign.ledger import DENIED, KEPT, Line, correlation

Effect = holdkit.JournalEntry

LISTENER = "listener"
"""The end of a listener's name. It is told what happens while it listens, and may miss entries."""
KINDS = ("lost", "doubled", "denied", "oversold", "gone", "unsound")
ENDS = ("hold.confirmed", "hold.released")
COUNTS = ("done", "refused", "unknown")


class Told:
    """The violations that earlier checks of a trial have reported: each check reads all ledgers of the trial."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        self.counts: Counter[str] = Counter()


class Verdict(Struct):
    """The violations that one check found, as sentences."""

    lost: list[str] = []
    """A done answer without its effect."""
    doubled: list[str] = []
    """Two effects of one call, or an effect without a call."""
    denied: list[str] = []
    """An effect of an attempt whose answer said that it had none."""
    oversold: list[str] = []
    gone: list[str] = []
    """An entry that a follower was shown, and that the journal no longer has."""
    unsound: list[str] = []
    """What `verify` found, exceptions that are not Holdkit's, entries that a follower missed."""
    done: int = 0
    refused: int = 0
    unknown: int = 0

    def since(self, earlier: Told) -> Verdict:
        """This verdict without what an earlier check of the same trial has reported."""
        for name in KINDS:
            found: list[str] = getattr(self, name)
            setattr(self, name, [words for words in found if words not in earlier.words])
            earlier.words.update(found)
        for name in COUNTS:
            found_now: int = getattr(self, name)
            setattr(self, name, found_now - earlier.counts[name])
            earlier.counts[name] = found_now
        return self

    @property
    def violations(self) -> list[str]:
        """All violations."""
        return [f"{name}: {words}" for name in KINDS for words in getattr(self, name)]


def check(hk: holdkit.Kernel, lines: Sequence[Line], pools: Iterable[str] = TOTALS) -> Verdict:
    """Compare the answers that callers got with the journal and the rows."""
    verdict = Verdict()
    journal = list(hk.journal.follow(wait=False))
    effects = effects_by_attempt(journal)
    calls: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for line in lines:
        if line.verb:
            calls[line.caller, line.call].append(line)
    for of_call in calls.values():
        check_call(of_call, effects, verdict)
    asked = {line.key for line in lines if line.said == "asked"}
    verdict.doubled += [f"{key} was never asked" for key in effects if key not in asked]
    verdict.unsound += [f"{line.key} {line.words}" for line in lines if line.said == "broken"]
    check_sums(hk, journal, pools, verdict)
    check_times(journal, verdict)
    return verdict


def effects_by_attempt(journal: Iterable[Effect]) -> dict[str, list[Effect]]:
    """The journal entries that done answers promise, by the correlation id of the attempt."""
    found: dict[str, list[Effect]] = defaultdict(list)
    promised = set(EFFECTS.values())
    for entry in journal:
        if entry.correlation_id is not None and not entry.raw.part and entry.action in promised:
            found[entry.correlation_id].append(entry)
    return found


def check_call(lines: Sequence[Line], effects: Mapping[str, list[Effect]], verdict: Verdict) -> None:
    """One call, over all of its attempts."""
    first = lines[0]
    attempts = 1 + max(line.attempt for line in lines)
    keys = [correlation(first.caller, first.call, attempt) for attempt in range(attempts)]
    wanted = EFFECTS[first.verb]
    found = [entry for key in keys for entry in effects.get(key, ()) if entry.action == wanted]
    if len(found) > 1:
        verdict.doubled.append(f"{first.verb} {keys[0]} has {len(found)} effects")
    for line in lines:
        verdict.unknown += line.said == "unknown"
        verdict.refused += line.said == "refused"
        verdict.done += line.said in KEPT
        if line.said in KEPT and not found:
            verdict.lost.append(f"{line.verb} {line.key} was told {line.words or 'done'}")
        elif line.said in KEPT and not same(line, found[0]):
            verdict.lost.append(f"{line.verb} {line.key} was told of another effect than {found[0]}")
        if line.said == "refused" and line.op and found:
            verdict.denied.append(f"{line.verb} {line.key} was settled as {line.words}")
        elif line.said in DENIED and any(entry.action == wanted for entry in effects.get(line.key, ())):
            verdict.denied.append(f"{line.verb} {line.key} was told {line.words}")


def same(line: Line, entry: Effect) -> bool:
    """Whether the answer named this hold, and this position if any. (A consume has two entries, and names the second.)"""
    if line.hold and line.hold != entry.subject:
        return False
    position = (entry.raw.row.lane, entry.raw.row.seq)
    return not line.seq or line.verb == "consume" or (line.lane, line.seq) == position


def check_sums(hk: holdkit.Kernel, journal: Sequence[Effect], pools: Iterable[str], verdict: Verdict) -> None:
    """Never more than there is, at any moment; nothing twice; the rows say what the journal says."""
    for entry in journal:
        for effect in entry.pools:
            if effect.pool.held + effect.pool.consumed > effect.pool.total:
                verdict.oversold.append(f"{effect.pool.id} at {entry.position}")
    once = Counter((entry.subject, entry.action) for entry in journal if not entry.raw.part and is_once(entry))
    verdict.doubled += [
        f"{action} of {subject} {times} times" for (subject, action), times in once.items() if times > 1
    ]
    for id in pools:
        pool = hk.pool(id)
        if pool.held + pool.consumed > pool.total:
            verdict.oversold.append(id)
    verdict.unsound += [str(difference) for difference in hk.admin.verify().differences]


def check_times(journal: Sequence[Effect], verdict: Verdict) -> None:
    """Along a pool no slot goes back; nothing is placed or ended while a leg is due; nothing ends after its deadline or expires before it."""
    pools: dict[tuple[str, str], Times] = defaultdict(Times)
    for entry in journal:
        change = entry.raw.entry.change
        moved = {effect.pool.id for effect in entry.pools}
        if change is not None and not moved:  # an extension moves no units
            moved = {leg.pool for leg in change.legs if leg.held}
        for pool in sorted(moved):
            verdict.unsound += [f"{words} at {entry.position}" for words in pools[entry.tenant, pool].wrong(entry)]


class Times:
    """The latest slot of a pool, and the deadlines of the holds on it."""

    def __init__(self) -> None:
        self.slot = 0
        self.deadlines: dict[str, int] = {}
        self._order: list[tuple[int, str]] = []
        """A heap; some of them have changed or ended since."""

    def wrong(self, entry: Effect) -> Iterator[str]:
        """What is wrong about the times of the next entry."""
        action, subject, slot = str(entry.action), entry.subject, entry.raw.slot
        if slot < self.slot:
            yield f"{action} of {subject} goes from slot {self.slot} back to {slot}"
        self.slot = slot
        deadline = self.deadlines.pop(subject, None)
        if deadline is not None and action == "hold.expired" and slot < deadline:
            yield f"{subject} expired {deadline - slot} slots too early"
        if deadline is not None and action in ENDS and slot >= deadline:
            yield f"{action} of {subject} {slot - deadline} slots too late"
        if action in ("hold.held", *ENDS) and self._earliest(slot) <= slot:
            yield f"{action} of {subject}, while a leg is due"
        after = entry.raw.entry.hold or entry.raw.entry.change
        if after is not None and after.state is State.HELD and after.deadline is not None:
            self.deadlines[subject] = after.deadline
            heapq.heappush(self._order, (after.deadline, subject))

    def _earliest(self, slot: int) -> int:
        """The earliest deadline; if there is none, one after this slot."""
        order = self._order
        while order and self.deadlines.get(order[0][1]) != order[0][0]:
            heapq.heappop(order)
        return order[0][0] if order else slot + 1


def is_once(entry: Effect) -> bool:
    """An action that a hold sees at most once."""
    return str(entry.action) in ("hold.held", "hold.confirmed", "hold.released", "hold.expired")


def check_follower(hk: holdkit.Kernel, lines: Sequence[Line], verdict: Verdict) -> None:
    """What a lone follower and its listener were shown, under any name, and is not there; and what the follower missed under its
    present name."""
    shown: dict[int, dict[tuple[int, int], str]] = defaultdict(dict)
    lost = [line for line in lines if line.said == "cursor_lost"]
    there = {(entry.raw.row.lane, entry.raw.row.seq): told_of(entry) for entry in hk.journal.follow(wait=False)}
    for line in lines:
        if line.said == "shown":
            at = (line.lane, line.seq)
            if not line.caller.endswith(LISTENER):
                shown[line.call][at] = line.words
            if there.get(at) != line.words:
                verdict.gone.append(f"{line.words} at {at}, as {line.caller}-{line.call}")
    seen = shown[len(lost)]
    verdict.unsound += [f"the follower missed {words} at {at}" for at, words in there.items() if seen.get(at) != words]
    verdict.unsound += [f"the follower's cursor was lost: {line.words}" for line in lost]


def told_of(entry: Effect) -> str:
    """An entry as a follower's ledger has it."""
    return f"{entry.action} {entry.subject} {entry.correlation_id}"
