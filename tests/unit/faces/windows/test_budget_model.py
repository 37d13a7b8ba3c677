"""Random days of a budget, beside a model that is a few dictionaries: the same answers, the same remains."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import holdkit
from holdkit import Allowance
from holdkit.testing import FakeClock

SECOND = 1_000_000
TOTALS = {("calls", 60): 4, ("tokens", 60): 50, ("tokens", 300): 120}
LIFE = 45

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.sampled_from([0.000001, 1, 15, 44.999999, 45, 60, 299.999999])),
        st.tuples(st.just("hold"), st.integers(1, 3), st.integers(1, 60)),
        st.tuples(st.just("spend"), st.integers(0, 5), st.integers(0, 90), st.sampled_from(["up_to_available", "if_available"])),
        st.tuples(st.just("sweep")),
    ),
    max_size=30,
)  # fmt: skip


class Model:
    """Per window what is used; per hold when it was decided and until when it lives."""

    def __init__(self) -> None:
        self.now = 0
        self.used: dict[tuple[str, int, int], int] = defaultdict(int)
        self.holds: list[dict[str, Any]] = []

    def windows(self, amounts: dict[str, int], at: int) -> dict[tuple[str, int, int], int]:
        return {(name, length, at // (length * SECOND)): amounts[name] for name, length in TOTALS if amounts.get(name)}

    def left(self, window: tuple[str, int, int]) -> int:
        held: int = sum(hold["windows"].get(window, 0) for hold in self.alive())
        return TOTALS[window[:2]] - self.used[window] - held

    def alive(self) -> list[dict[str, Any]]:
        return [hold for hold in self.holds if hold["open"] and self.now < hold["at"] + LIFE * SECOND]

    def hold(self, calls: int, tokens: int) -> bool:
        windows = self.windows({"calls": calls, "tokens": tokens}, self.now)
        granted = all(amount <= self.left(window) for window, amount in windows.items())
        self.holds.append({"open": granted, "at": self.now, "windows": windows})
        return granted

    def spend(self, number: int, tokens: int, overage: str) -> str:
        hold = self.holds[number]
        if hold not in self.alive():
            return "ended"
        extra = {window: max(0, tokens - held) for window, held in hold["windows"].items() if window[0] == "tokens"}
        if overage == "if_available" and any(more > self.left(window) for window, more in extra.items()):
            return "short"
        room = {window: self.left(window) for window in extra}
        hold["open"] = False
        for window, held in hold["windows"].items():
            self.used[window] += held if window[0] == "calls" else min(tokens, held) + min(extra[window], room[window])
        return "done"


def outcome(call: Any) -> str:
    try:
        call()
    except holdkit.InsufficientCapacity:
        return "short"
    except (holdkit.HoldExpired, holdkit.AlreadyConfirmed):
        return "ended"
    return "done"


@given(STEPS)
@settings(max_examples=150)
def test_budgets_are_as_in_the_model(steps: list[Any]) -> None:
    clock, model = FakeClock(), Model()
    with holdkit.connect("memory://", clock=clock) as hk:
        llm = hk.budget(
            "llm",
            calls=Allowance(4, per="minute"),
            tokens=(Allowance(50, per="minute"), Allowance(120, per="5m")),
        )
        holds: list[Any] = []
        for verb, *said in steps:
            if verb == "advance":
                model.now = clock.advance(said[0])
            elif verb == "sweep":
                hk.sweep()
            elif verb == "hold":
                granted = outcome(
                    lambda calls=said[0], tokens=said[1]: holds.append(
                        llm.hold("a", {"calls": calls, "tokens": tokens}, ttl=LIFE)
                    )
                )
                assert (granted == "done") is model.hold(*said)
                if granted != "done":
                    holds.append(None)
            elif said[0] < len(holds) and holds[said[0]] is not None:
                number, tokens, overage = said
                told = outcome(lambda: llm.confirm(holds[number], {"tokens": tokens}, overage=overage))  # noqa: B023
                assert told == model.spend(number, tokens, overage)
            remaining = {
                name: min(
                    max(0, model.left((one, length, model.now // (length * SECOND))))
                    for one, length in TOTALS
                    if one == name
                )
                for name in ("calls", "tokens")
            }
            assert llm.remaining("a") == remaining
        assert hk.admin.verify().ok
