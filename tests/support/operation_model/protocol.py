"""The protocol of operation ids on distributed tables: bind, then do.

Theory of operation. An operation id has a lane of its own, which follows from the id alone, so that its reuse for another pool is noticed. A
call on one pool first *binds* its ids: a row in the id's own lane says which payload the id stands for and which lane, its *home*, has the
answer. Then it *does*: effect and answer are written together, in the home lane. Each of the two is a transaction in one lane.

- A binding never changes. While its window lasts, everybody who comes with the id either has its payload, and goes to its home, or gets
  `operation_conflict`, also while nothing was done yet.
- Whoever goes to the home and finds the binding's answer there repeats it. If there is none, nothing was done; the row's unique key lets one
  session do it. So a call that was lost between the two is done by its retry.
- The window is the binding's. The answer belongs to a binding by its number, not by a clock, and is kept a little longer (`SKEW`), because
  its lane may be on a server whose clock is ahead. Near the end of the window (`SKEW` and `LONGEST`) nothing is done any more: the call is
  turned away.
- A command that records nothing (malformed for what it names, a window that has closed) makes its binding *void*, by an answer in the home
  lane. Nothing can be done under it any more, so the next call may bind the id again, also with another payload. Numbers of bindings grow:
  whoever finds an answer of a newer binding at home comes too late for its own, and binds again.
- The ordinary way, which takes several lanes in one transaction, follows a binding that it finds, and keeps it from being replaced: its answer
  goes to the home lane too. If it finds none, its answer is in the id's own lane, and whoever wants to bind finds that.
- A call whose pool is not in the home lane goes the ordinary way. So does one on several lanes, and one in a caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.support.operation_model.state import Call, State

WINDOW = 5
"""How long a record is kept."""
SKEW = 1
"""By how much the clocks of two servers may differ."""
LONGEST = 1
"""How long a transaction of ours may be open: then the server ends it. A caller's may be open for ever."""


class Protocol(NamedTuple):
    """How the protocol is built. With every field as it is here: as it stands. Any other value is a mistake that the search must find."""

    binds_first: bool = True
    compares_payloads: bool = True
    answers_beside_the_effect: bool = True
    answers_by_binding: bool = True
    """An answer counts for the binding that it belongs to, not for any binding of the same id."""
    looks_at_the_end: bool = True
    """Nothing is done when the binding's window is nearly over."""
    looks_for_void: bool = True
    """Another payload takes a binding over only if it is void."""
    yields_to_a_newer_binding: bool = True
    """Nothing is done under a binding once a newer one has an answer: what made it void is overwritten then."""
    ordinary_follows: bool = True
    """The ordinary way looks for the answer where a binding says."""
    keeps_the_row_it_follows: bool = True
    """An open transaction locks the binding that it follows."""
    answers_at_home: bool = True
    """The answer goes to the binding's home, also where the pool is elsewhere by now."""
    checks_the_placement: bool = True
    """A batch for a shard checks that the shard is where it writes."""
    keeps_answers_longer: bool = True
    """An answer is pruned later than its binding."""
    keeps_bindings: bool = True
    """A binding is pruned when its window is over."""
    erases_every_lane: bool = True
    """An erasure looks for answers in every lane, not only in those of their ids."""


class World(NamedTuple):
    """What does not change while the model runs."""

    calls: tuple[Call, ...]
    protocol: Protocol = Protocol()
    ahead: Mapping[str, int] = {}
    """By how much the clocks of lanes are ahead."""
    last: int = 7
    """The time at which the model ends."""
    moves: bool = False
    erases: bool = False

    def now(self, state: State, lane: str) -> int:
        """The time by the clock of a lane."""
        return state.time + self.ahead.get(lane, 0)


class Violation(AssertionError):
    """A promise is broken."""
