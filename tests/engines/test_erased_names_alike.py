"""Whatever is erased on the way, limits per account and claims answer as if nothing had been: random histories, on every engine."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import holdkit

ACCOUNTS = ("customer:1", "customer:2")
KEYS = ("ann", "bea", "cleo")
POOLS = ("show", "venue", "venue//stalls")
STEPS = 70


class History:
    """One kernel, and what it has answered."""

    def __init__(self, hk: holdkit.Kernel, *, erasing: bool) -> None:
        self.hk, self.erasing = hk, erasing
        self.holds: list[holdkit.Hold] = []
        self.claims: dict[str, holdkit.Hold] = {}
        self.answers: list[Any] = []
        hk.create_pool("show", total=30, per_account=5)
        hk.create_pool("venue", total=30, per_account=6)
        hk.create_pool("venue//stalls", total=20, per_account=4)

    def run(self, seed: int) -> None:
        choose = random.Random(seed)
        steps = (
            self.hold,
            self.hold,
            self.consume,
            self.end,
            self.end,
            self.claim,
            self.claim,
            self.settle,
            self.free,
        )
        for number in range(STEPS):
            step = choose.choice((*steps, self.erase_account, self.erase_claim))
            account, pool, quantity = choose.choice(ACCOUNTS), choose.choice(POOLS), choose.randint(1, 3)
            key, which = choose.choice(KEYS), choose.random()
            try:
                answer = step(account=account, pool=pool, quantity=quantity, key=key, which=which, op=f"op {number}")
            except holdkit.Refused as refused:
                short = refused.shortfalls if isinstance(refused, holdkit.AccountLimit) else ()
                answer = (refused.reason, [(one.pool, one.available, one.used, one.total) for one in short])
            self.answers.append((number, step.__name__, answer, self.state()))

    def state(self) -> list[Any]:
        """What everybody uses, and which keys are taken."""
        use = [[(one.pool, one.used, one.limit) for one in self.hk.accounts.usage(name)] for name in ACCOUNTS]
        return [*use, [self.hk.claims.is_taken("name", key) for key in KEYS]]

    def hold(self, *, account: str, pool: str, quantity: int, op: str, **_: Any) -> Any:
        self.holds.append(self.hk.hold(pool, quantity, ttl=600, account=account, op=op))
        return "held", self.hk.hold(pool, quantity, ttl=600, account=account, op=op).replayed

    def consume(self, *, account: str, pool: str, quantity: int, op: str, **_: Any) -> Any:
        self.hk.consume({"show": 1, pool: quantity}, account=account, op=op)
        return "consumed"

    def end(self, *, which: float, quantity: int, **_: Any) -> Any:
        if not self.holds:
            return "none"
        hold = self.holds.pop(int(which * len(self.holds)))
        if quantity == 1:
            return self.hk.release(hold).state
        self.hk.confirm(hold)
        return quantity == 2 or self.hk.return_units(hold, quantity=1).state

    def claim(self, *, key: str, op: str, **_: Any) -> Any:
        self.claims[key] = self.hk.claims.hold("name", key, ttl=600, op=op)
        return "claimed", self.hk.claims.hold("name", key, ttl=600, op=op).replayed

    def settle(self, *, key: str, which: float, op: str, **_: Any) -> Any:
        if key not in self.claims:
            return "none"
        if which < 0.3:
            return self.hk.release(self.claims[key], op=op).state
        return self.hk.confirm(self.claims[key], entity="user:7", op=op).state

    def free(self, *, key: str, which: float, op: str, **_: Any) -> Any:
        found = self.hk.claims.get("name", key)
        if found is None or not self.hk.claims.is_taken("name", key):
            return "none"
        return self.hk.claims.free("name", key, reason="left", op=op).state

    def erase_account(self, *, account: str, **_: Any) -> None:
        if self.erasing:
            self.hk.admin.erase("account", account, reason="request 1")

    def erase_claim(self, *, key: str, which: float, **_: Any) -> None:
        if self.erasing:
            by, value = ("claim", f"name:{key}") if which < 0.7 else ("entity", "user:7")
            self.hk.admin.erase(by, value, reason="request 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_as_if_nothing_had_been_erased(erasable: holdkit.Kernel, seed: int) -> None:
    with holdkit.connect("memory://") as untouched:
        expected, found = History(untouched, erasing=False), History(erasable, erasing=True)
        expected.run(seed)
        found.run(seed)
    for one, other in zip(found.answers, expected.answers, strict=True):
        assert one == other, f"seed {seed}"
    met = Counter(answer[0] for _, _, answer, _ in found.answers if isinstance(answer, tuple))
    assert met["held"] > 3
    assert met["claimed"] > 1
    assert erasable.admin.verify().ok
