"""An engine that is distributed may do some groups of a batch and fail others: each caller gets its own answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import pytest

from holdkit.core.codec import minted_id
from holdkit.core.commands import CreatePool, Group, PlaceHold
from holdkit.core.model import SECOND, Leg
from holdkit.core.outcomes import Done
from holdkit.core.reading import FindPool
from holdkit.engines.durability import IN_MEMORY
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, BatchRejected, Capabilities
from holdkit.errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from holdkit.kernel.batches import BatchCounts, BatchRunner, QueuedCall, SkippedLocked
from holdkit.testing import FakeClock
from tests.support.kernels import no_lines


class TwoServers:
    """Pools `a…` and `b…` live apart. What is about `b` fails as the script says: the next error in it, after it was done
    (True) or instead; None: it goes well."""

    url, lanes, durability = "memory://", 2, IN_MEMORY
    capabilities = Capabilities()

    def __init__(self, *script: tuple[HoldkitError, bool] | None) -> None:
        self.inner = MemoryEngine(clock=FakeClock())
        self.limits, self.stored, self.clock = self.inner.limits, self.inner.stored, self.inner.clock
        self.durability = self.inner.durability
        self.script = list(script)
        self.sent: list[list[str]] = []
        self.read: Callable[..., Any] = self.inner.read
        for pool in ("a", "b"):
            self.inner.apply([Group((CreatePool(id=pool, total=100),))])

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        self.sent.append([pool_of(group) for group in groups])
        step = self.script.pop(0) if self.script and "b" in self.sent[-1] else None
        outcomes, failed = [], dict[int, HoldkitError]()
        for index, pool in enumerate(self.sent[-1]):
            hit = step is not None and pool == "b"
            done = self.inner.apply([groups[index]]).outcomes[0] if step is None or not hit or step[1] else []
            outcomes.append([] if hit else done)
            if hit and step is not None:
                failed[index] = step[0]
        if failed and len(failed) == len(groups):
            raise failed[0]
        return Applied(outcomes, None, bool(outcomes), failed=failed)

    def held(self, pool: str) -> int:
        found = self.inner.read(FindPool(("", pool)))
        assert found is not None
        return found.held


def pool_of(group: Group) -> str:
    (command,) = group.commands
    assert isinstance(command, PlaceHold)
    return command.legs[0].pool


def placing(number: int, pool: str, *, minted: bool = True) -> QueuedCall:
    command = PlaceHold(
        legs=(Leg(pool),), ttl_slots=60 * SECOND, id=minted_id(1, bytes([number]) * 10), token=f"owner-{number}"
    )
    return QueuedCall(Group((command,)), minted)


def run(engine: TwoServers, pools: str, *, minted: bool = True) -> list[QueuedCall]:
    batch = [placing(number, pool, minted=minted) for number, pool in enumerate(pools)]
    BatchRunner(engine, no_lines, BatchCounts()).run(batch, inf)  # type: ignore[arg-type]
    assert all(submission.settled for submission in batch)
    return batch


def done(submission: QueuedCall) -> bool:
    return submission.outcomes is not None and isinstance(submission.outcomes[0], Done)


@pytest.mark.parametrize("written", [True, False])
def test_what_is_unknown_is_asked_about_and_the_rest_is_done(written: bool) -> None:
    engine = TwoServers((OutcomeUnknown("lost"), written))
    batch = run(engine, "abab")
    assert all(done(submission) for submission in batch)
    assert (engine.held("a"), engine.held("b")) == (2, 2)
    assert "a" not in {pool for sent in engine.sent[1:] for pool in sent}, "what was done is not sent again"


def test_without_a_retry_key_it_stays_unknown() -> None:
    engine = TwoServers((OutcomeUnknown("lost"), True))
    first, second = run(engine, "ab", minted=False)
    assert done(first)
    assert isinstance(second.error, OutcomeUnknown)
    assert len(engine.sent) == 1, "never sent twice"


@pytest.mark.parametrize("error", [Overloaded("busy"), EngineError("a disk is full")])
def test_any_other_error_fails_its_owners_each_with_its_own(error: HoldkitError) -> None:
    engine = TwoServers((error, False))
    batch = run(engine, "bab")
    assert [done(submission) for submission in batch] == [False, True, False]
    assert type(batch[0].error) is type(batch[2].error) is type(error)
    assert batch[0].error is not batch[2].error
    assert len(engine.sent) == 1


def test_what_was_rejected_together_is_sent_again_in_halves() -> None:
    poison = BatchRejected("one of them")
    engine = TwoServers((poison, False), (poison, False))
    batch = run(engine, "babb")
    assert [done(submission) for submission in batch] == [False, True, True, True]
    assert type(batch[0].error) is EngineError, "alone, a rejected command is one that failed"
    assert engine.sent == [["b", "a", "b", "b"], ["b"], ["b", "b"]]
    assert (engine.held("a"), engine.held("b")) == (1, 2)


def test_one_that_was_rejected_alone_failed() -> None:
    engine = TwoServers((BatchRejected("it"), False))
    first, second = run(engine, "ab")
    assert done(first)
    assert type(second.error) is EngineError
    assert len(engine.sent) == 1


def test_skipped_and_failed_in_one_batch() -> None:
    class Both(TwoServers):
        def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
            return Applied([[], [], [Done(slot=1)]], None, True, {0: "a"}, failed={1: Overloaded("busy")})

    first, second, third = run(Both(), "aba")
    assert isinstance(first.error, SkippedLocked)
    assert isinstance(second.error, Overloaded)
    assert done(third)
