"""Two callers settle parts of one hold at once: whatever comes between one's look at the hold and its confirm, nothing is
counted twice, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit import Allowance, Hold
from holdkit.core.reading import FindHold
from holdkit.kernel.opening import open_engine
from holdkit.testing import FakeClock
from tests.support.kernels import Store
from tests.support.modes import Sync

BUDGETS = {"tokens": Allowance(1_000, per="hour"), "calls": Allowance(10, per="hour")}


def between(engine: Any, look: str, rival: Callable[[], Any]) -> list[Any]:
    """The rival comes once, right after somebody has looked at a hold."""
    real, came = getattr(engine, look), list[Any]()

    def looking(*arguments: Any, **how: Any) -> Any:
        found = real(*arguments, **how)
        if isinstance(arguments[-1], FindHold) and not came:
            came.append(None)
            came[0] = rival()
        return found

    setattr(engine, look, looking)
    return came


Said = tuple[dict[str, int], dict[str, bool]]
KEEP = {"keep_rest": True}
RACES: dict[str, tuple[Said, Said, dict[str, tuple[int, int]], str]] = {
    "what is not named was confirmed in part": (
        ({"tokens": 40}, {}), ({"calls": 2}, KEEP), {"calls": (0, 3), "tokens": (0, 40)}, "confirmed"),
    "what is not named was confirmed whole": (
        ({"tokens": 40}, {}), ({"calls": 3}, KEEP), {"calls": (0, 3), "tokens": (0, 40)}, "confirmed"),
    "both keep the rest of the same": (
        ({"tokens": 40}, KEEP), ({"tokens": 30}, KEEP), {"calls": (3, 0), "tokens": (30, 70)}, "held"),
    "both keep the rest, of different ones": (
        ({"tokens": 40}, KEEP), ({"calls": 2}, KEEP), {"calls": (1, 2), "tokens": (60, 40)}, "held"),
    "the last one gives back what is left": (
        ({"tokens": 0}, {}), ({"calls": 3}, KEEP), {"calls": (0, 3), "tokens": (0, 0)}, "released"),
    "nothing of everything": (
        ({"tokens": 0, "calls": 0}, {}), ({"tokens": 30}, KEEP), {"calls": (0, 0), "tokens": (0, 30)}, "released"),
    "more than was left is covered once": (
        ({"tokens": 100}, {}), ({"tokens": 90}, KEEP), {"calls": (0, 3), "tokens": (0, 190)}, "confirmed"),
}  # fmt: skip


def standing(budgets: Any) -> dict[str, tuple[int, int]]:
    return {usage.budget: (usage.held, usage.consumed) for usage in budgets.usage("team")}


@pytest.mark.parametrize("race", RACES)
def test_a_rival_between_the_look_and_the_confirm(store: Store, race: str) -> None:
    (mine, my_way), (theirs, their_way), expected, state = RACES[race]
    engine = store.hk._executor.engine
    rivals = Sync().open(engine).budget("llm", **BUDGETS)
    budgets = store.hk.budget("llm", **BUDGETS)
    hold = budgets.hold("team", {"tokens": 100, "calls": 3}, ttl=60)
    came = between(engine, "read", lambda: rivals.confirm(hold, theirs, **their_way))
    assert budgets.confirm(hold, mine, **my_way).state == state
    assert isinstance(came[0], Hold)
    assert standing(budgets) == expected


def test_a_rival_that_ends_it_first_is_the_only_one_that_counts(store: Store) -> None:
    engine = store.hk._executor.engine
    rivals = Sync().open(engine).budget("llm", **BUDGETS)
    budgets = store.hk.budget("llm", **BUDGETS)
    hold = budgets.hold("team", {"tokens": 100, "calls": 3}, ttl=60)
    between(engine, "read", lambda: rivals.confirm(hold, {"tokens": 7}))
    with pytest.raises(holdkit.AlreadyConfirmed):
        budgets.confirm(hold, {"tokens": 40})
    assert standing(budgets) == {"calls": (0, 3), "tokens": (0, 7)}


def test_a_rival_commits_while_a_callers_transaction_is_open(postgres_url: str) -> None:
    """READ COMMITTED: what the transaction has looked at may be another thing by the time it confirms."""
    holdkit.migrate(postgres_url)
    engine = open_engine(postgres_url, clock=FakeClock(), limits=None)
    hk = Sync().open(engine)
    budgets = hk.budget("llm", **BUDGETS)
    hold = budgets.hold("team", {"tokens": 100, "calls": 3}, ttl=60)
    came = between(engine, "read_in", lambda: budgets.confirm(hold, {"calls": 2}, keep_rest=True))
    with psycopg.connect(postgres_url) as tx:
        assert budgets.confirm(hold, {"tokens": 40}, tx=tx).state == "confirmed"
    assert isinstance(came[0], Hold)
    assert standing(budgets) == {"calls": (0, 3), "tokens": (0, 40)}
    assert hk.admin.verify().ok
    hk.close()


def test_a_hold_that_is_committed_right_after_the_look_is_not_confirmed_as_estimated(postgres_url: str) -> None:
    """What it came to was said by budget, and nobody could see yet which pools these are: nothing is done."""
    holdkit.migrate(postgres_url)
    engine = open_engine(postgres_url, clock=FakeClock(), limits=None)
    hk = Sync().open(engine)
    budgets = hk.budget("llm", **BUDGETS)
    with psycopg.connect(postgres_url) as tx:
        hold = budgets.hold("team", {"tokens": 100, "calls": 3}, ttl=60, tx=tx)
        came = between(engine, "read", tx.commit)
        with pytest.raises(holdkit.InvalidRequest) as refused:
            budgets.confirm(hold, {"tokens": 40}, op="bill")
    assert came
    assert refused.value.code == "leg_unknown"
    assert standing(budgets) == {"calls": (3, 0), "tokens": (100, 0)}
    assert budgets.confirm(hold, {"tokens": 40}, op="bill").state == "confirmed"
    assert standing(budgets) == {"calls": (0, 3), "tokens": (0, 40)}
    hk.close()
