"""Lines, accounts and trees on a file, beside the memory engine: the same random commands give the same answers, rows and journal.

HOLDKIT_SEED and HOLDKIT_EXAMPLES repeat a run and lengthen it.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ConfirmHold,
    Consume,
    CreatePool,
    ExtendHold,
    FeedLine,
    Group,
    JoinLine,
    LeaveLine,
    LimitPool,
    Overage,
    PlaceHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from holdkit.core.entries import Action
from holdkit.core.model import Leg, Line, State
from holdkit.core.outcomes import Done, Refusal
from holdkit.core.reading import (
    CountAhead,
    CountRows,
    FindHold,
    ListHolds,
    ListPools,
    ListUsage,
    NextDeadline,
    ReadJournal,
    TakeSurvey,
    entry_of,
)
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Engine
from holdkit.engines.sqlite import SqliteEngine
from tests.engines.commands import START, Clock

SEED = int(os.environ.get("HOLDKIT_SEED", "16"))
EXAMPLES = int(os.environ.get("HOLDKIT_EXAMPLES", "12"))
STEPS = 120

ROOTS = {"show": 6, "bus": 3, "venue": 8}
BELOW = {"venue//stalls": 5, "venue//stalls//left": 3, "venue//box": 4}
ACCOUNTS = ("ann", "bob", "cy")
TENANTS = ("", "other")
LINES: tuple[Line, ...] = ("strict", "skip")
OVERAGES: tuple[Overage, ...] = ("reject", "if_available", "up_to_available")
LIMITS = Limits(max_due=3, max_offers=2, retention=60, retention_consumed=90, max_line=6, max_touched_legs=6)


KINDS = ("place", "place", "place", "join", "join", "join", "join", "confirm", "release", "release", "extend", "consume",
         "return", "feed", "sweep", "pool", "pool", "resize", "limit", "loose", "leave")  # fmt: skip


class Draw:
    """Random commands about few pools, holds and accounts."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ids: list[tuple[str, str]] = []

    def id(self, tenant: str) -> str:
        id = f"{len(self.ids) + 1:032x}"
        self.ids.append((tenant, id))
        return id

    def legs(self) -> tuple[Leg, ...]:
        names = self.random.sample([*ROOTS, *BELOW], self.random.choice((1, 1, 1, 2)))
        born = self.random.random() < 0.1
        legs = [Leg(name, self.random.choice((1, 1, 2, 3))) for name in names]
        return (*legs, Leg(self.random.choice(("tmp", "venue//tmp")), 1, 2)) if born else tuple(legs)

    def account(self) -> str | None:
        return self.random.choice((None, *ACCOUNTS))

    def command(self) -> AnyCommand:
        pick, tenant = self.random, self.random.choice((*TENANTS, ""))
        kind = pick.choice(KINDS)
        root, any_pool = pick.choice([*ROOTS]), pick.choice([*ROOTS, *BELOW, "tmp", "venue//tmp"])
        if kind in ("confirm", "release", "extend", "return", "leave"):
            return self.standing(kind)
        if kind in ("place", "consume"):
            waits = {"wait_slots": 30, "offer_slots": 5} if pick.random() < 0.2 else {}
            named = {"id": self.id(tenant), "token": "me", "tenant": tenant, "account": self.account()}
            if kind == "consume":
                return Consume(legs=self.legs(), **named)  # type: ignore[arg-type]
            legs = (Leg(root, pick.choice((1, 2))),) if waits else self.legs()
            return PlaceHold(legs=legs, ttl_slots=pick.choice((4, 15, 40)), **waits, **named)  # type: ignore[arg-type]
        if kind == "join":
            return JoinLine(
                legs=(Leg(root, pick.choice((1, 1, 2, 3))),),
                ttl_slots=pick.choice((10, 50)),
                offer_slots=pick.choice((3, 12)),
                id=self.id(tenant),
                token="me",
                tenant=tenant,
                account=self.account(),
            )
        if kind == "pool":
            verb = pick.choice((ArchivePool, UnarchivePool, UnarchivePool, RemovePool, None))
            if verb is None:
                total = (ROOTS | BELOW).get(any_pool, 2)
                return CreatePool(id=any_pool, total=total, tenant=tenant, line=pick.choice(LINES))
            return verb(id=any_pool, tenant=tenant)
        others: dict[str, AnyCommand] = {
            "feed": FeedLine(id=root, tenant=tenant),
            "sweep": Sweep(limit=pick.choice((2, 500))),
            "resize": ResizePool(id=any_pool, total=pick.choice((2, 5, 8)), tenant=tenant),
            "limit": LimitPool(id=any_pool, per_account=pick.choice((None, 2, 4)), tenant=tenant),
            "loose": ReturnToPool(
                id=any_pool, quantity=1, force=True, reason="r", account=self.account(), tenant=tenant
            ),
        }
        return others[kind]

    def standing(self, kind: str) -> AnyCommand:
        tenant, id = self.random.choice(self.ids[-12:]) if self.ids else ("", "0" * 32)
        rest = self.random.random() < 0.5
        match kind:
            case "confirm":
                overage = self.random.choice(OVERAGES)
                quantity = self.random.choice((None, None, 1, 2))
                return ConfirmHold(id=id, token="me", tenant=tenant, quantity=quantity, overage=overage, keep_rest=rest)
            case "release":
                return ReleaseHold(id=id, token="me", tenant=tenant, quantity=1 if rest else None)
            case "extend":
                return ExtendHold(id=id, token="me", tenant=tenant, by_slots=20)
            case "leave":
                return LeaveLine(id=id, token="me", tenant=tenant)
            case _:
                return ReturnUnits(id=id, token="me", tenant=tenant, quantity=1 if rest else None)

    def batch(self) -> list[Group]:
        sizes = self.random.choice(((1,), (1,), (1,), (1, 1, 1), (2,), (3, 1)))
        return [Group(tuple(self.command() for _ in range(size)), atomic=self.random.random() < 0.5) for size in sizes]


def everything(engine: Engine, ids: list[tuple[str, str]]) -> list[object]:
    """All that can be read, except sizes."""
    found: list[object] = [engine.read(TakeSurvey()), [entry_of(row) for row in engine.read(ReadJournal(None))]]
    for tenant in TENANTS:
        found += [engine.read(ListPools(tenant, archived=True)), engine.read(ListHolds(tenant))]
        found += [engine.read(ListHolds(tenant, pool=pool, state=state)) for pool in ROOTS for state in State]
        found += [engine.read(NextDeadline((tenant, pool))) for pool in (*ROOTS, *BELOW)]
        found += [engine.read(ListUsage(tenant, account, limit=limit)) for account in ACCOUNTS for limit in (1, 100)]
        found += [engine.read(ListUsage(tenant, account, after="show")) for account in ACCOUNTS]
        found.append(engine.read(CountRows(tenant, "holds")).live)
    for key in ids:
        found += [engine.read(FindHold(key)), engine.read(CountAhead(key)), engine.read(CountAhead(key, limit=1))]
    return found


@pytest.mark.parametrize("seed", range(SEED, SEED + EXAMPLES))
def test_the_same_commands_leave_the_same(seed: int, tmp_path: Path) -> None:
    clock, draw, counts = Clock(), Draw(seed), Counter[str]()
    memory = MemoryEngine(clock=clock, limits=LIMITS)
    file = SqliteEngine(tmp_path / "holds.db", clock=clock, limits=LIMITS)
    pools = [
        CreatePool(id=name, total=total, tenant=tenant) for tenant in TENANTS for name, total in (ROOTS | BELOW).items()
    ]
    queue = [[Group((command,))] for command in pools]
    latest = START
    for step in range(STEPS):
        for batch in [*queue, draw.batch()]:
            left = batch
            while left:
                mine, theirs = memory.apply(left), file.apply(left)
                assert theirs.outcomes == mine.outcomes, (seed, step)
                assert (theirs.put_off, theirs.unfed) == (mine.put_off, mine.unfed), (seed, step)
                counts["unfed"] += len(mine.unfed)
                counts["put off at once"] += 0 in mine.put_off
                counts.update(one.reason for group in mine.outcomes for one in group if isinstance(one, Refusal))
                counts["done"] += sum(isinstance(one, Done) for group in mine.outcomes for one in group)
                left = [left[index] for index in sorted(mine.put_off)]
        queue = []
        clock.slot += draw.random.choice((0, 0, 1, 3, 9, 9, -2))
        latest = max(latest, clock.slot)
        if step % 20 == 19:
            clock.slot = latest  # what was pruned by a later clock is not seen by an earlier one
            if draw.random.random() < 0.5:
                file.close()
                file = SqliteEngine(tmp_path / "holds.db", clock=clock, limits=LIMITS)
            assert everything(file, draw.ids) == everything(memory, draw.ids), (seed, step)
            assert [str(one) for one in file.verify()] == [], (seed, step)
        if step == STEPS // 2:
            clock.slot += 100
    actions = Counter(entry_of(row).action for row in file.read(ReadJournal(None, limit=10_000)))
    assert actions[Action.HOLD_OFFERED] >= 3, "a history in which hardly anybody was served shows little"
    assert actions[Action.HOLD_WAITING] >= 5
    file.close()
