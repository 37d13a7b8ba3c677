"""What the clients of a simulated run ask for, as data: on plain pools, on a tree with a line, and of the limits."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from holdkit.core.codec import minted_id
from holdkit.core.commands import (
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    JoinLine,
    LimitPool,
    PlaceHold,
    PutRecord,
    ReassignHold,
    ReleaseHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
)
from holdkit.core.model import SECOND, Leg, Slot

START: Final[Slot] = 1_000_000 * SECOND
POOLS: Final = ("a", "b", "c", "d")
LINE: Final = "l"
TREE: Final = (LINE, "l//m", "l//m//n")
"""Clients wait in line at the root of this tree only."""


def first_pools(random: Random, *, has_line: bool) -> tuple[AnyCommand, ...]:
    """The pools that are there from the beginning."""
    pools: list[AnyCommand] = [CreatePool(id=name, total=random.randrange(2, 14)) for name in ("a", "b", "c")]
    pools += [CreatePool(id=name, total=random.randrange(2, 14), tenant="acme") for name in ("a", "b")]
    if has_line:
        order: Any = random.choice(("strict", "strict", "skip"))
        pools.append(CreatePool(id=LINE, total=random.randrange(2, 6), line=order))
        pools += [CreatePool(id=name, total=random.randrange(2, 6)) for name in TREE[1:]]
    return tuple(pools)


class Clients:
    """Clients that reuse ids, come late, and send again what was sent before."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._placed = [("", minted_id(START, random.randbytes(10)))]
        self._sent: list[AnyCommand] = []

    def command(self) -> AnyCommand:
        """The next command; sometimes one that was sent before."""
        random = self._random
        if self._sent and random.random() < 0.12:
            return random.choice(self._sent[-20:])
        command = self._fresh()
        if command.op is not None:
            self._sent.append(command)
        return command

    def _fresh(self) -> AnyCommand:  # noqa: C901 - one kind of command beside the other
        random = self._random
        op = f"op{random.randrange(200)}" if random.random() < 0.5 else None
        kind = random.choices(range(10), (3, 10, 6, 5, 4, 2, 3, 3, 2, 2))[0]
        tenant, hold = random.choice(("", "", "", "acme")), minted_id(START, random.randbytes(10))
        if random.random() < (0.1 if kind in (1, 6) else 0.9):  # of those that were placed, or should have been
            tenant, hold = random.choice(self._placed[-5:])
        elif kind in (1, 6):
            self._placed.append((tenant, hold))
        call: dict[str, Any] = {"tenant": tenant, "op": op}
        mine: dict[str, Any] = {**call, "id": hold, "token": random.choice(("me", "me", "me", "me", "you"))}
        if kind == 1 and random.random() < 0.1:
            mine = call  # the kernel mints id and token
        match kind:
            case 0:
                return CreatePool(id=self._pool(), total=random.randrange(14), **call)
            case 1:
                return PlaceHold(legs=self._legs(), ttl_slots=random.choice((1, 5, 30, 200, 900)) * SECOND, **mine)
            case 2:
                return ConfirmHold(**mine, keep_rest=random.random() < 0.3)
            case 3:
                return ReleaseHold(**mine)
            case 4:
                return ExtendHold(**mine, by_slots=random.choice((1, 50, 900)) * SECOND)
            case 5:
                return ExpireHold(id=hold, **call)
            case 6:
                return Consume(legs=self._legs(), **mine)
            case 7:
                if random.random() < 0.5:
                    return ReturnUnits(**mine)
                units = random.choice((1, 1, 2))
                return ReturnToPool(id=self._pool(), quantity=units, force=True, reason="refund", **call)
            case 8:
                if random.random() < 0.4:
                    return Sweep(limit=3)
                if random.random() < 0.5:
                    return ResizePool(id=self._pool(), total=random.randrange(9), **call)
                return random.choice((RemovePool, ArchivePool, UnarchivePool, UnarchivePool))(id=self._pool(), **call)
            case _:
                body, version = random.choice(('"x"', None)), random.choice((None, 0, 1))
                return PutRecord(kind="note", id="n", body=body, if_version=version, **call)

    def _pool(self) -> str:
        return self._random.choice(POOLS)

    def _legs(self) -> tuple[Leg, ...]:
        random = self._random
        names = random.sample(POOLS, random.choice((1, 1, 1, 1, 2, 3)))
        return tuple(Leg(name, random.choice((1, 1, 1, 2, 5)), random.choice((None, 3))) for name in names)


class LineClients:
    """Clients of the tree with a line at its root, some of them with an account."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._holds: list[str] = []

    def command(self) -> AnyCommand:
        """The next command."""
        random = self._random
        hold = random.choice(self._holds[-5:]) if self._holds else minted_id(START, random.randbytes(10))
        kind = random.choices(range(10), (8, 6, 5, 4, 1, 1, 1, 2, 1, 2))[0]
        if kind < 2:
            hold = minted_id(START, random.randbytes(10))
            self._holds.append(hold)
        birth: dict[str, Any] = {"id": hold, "token": "me", "account": random.choice((None, "x", "y"))}
        match kind:
            case 0:
                legs = (Leg(LINE, random.choice((1, 1, 2, 3))),)
                ttl, offer = random.choice((5, 200, 900)) * SECOND, random.choice((3, 30, 300)) * SECOND
                return JoinLine(**birth, legs=legs, ttl_slots=ttl, offer_slots=offer)
            case 1:
                names = random.sample(TREE, random.choice((1, 1, 2)))
                tree = tuple(Leg(name, random.choice((1, 1, 2))) for name in names)
                return PlaceHold(**birth, legs=tree, ttl_slots=random.choice((5, 30, 200)) * SECOND)
            case 2:
                return ReleaseHold(id=hold, token="me", quantity=random.choice((None, None, 1)))
            case 3:
                overage: Any = random.choice(("reject", "if_available", "up_to_available"))
                return ConfirmHold(id=hold, token="me", quantity=random.choice((None, None, 2)), overage=overage)
            case 4:
                return LimitPool(id=random.choice(TREE), per_account=random.choice((None, 2, 5)))
            case 5:
                return ResizePool(id=random.choice(TREE), total=random.randrange(1, 6))
            case 6:
                return random.choice((ArchivePool, UnarchivePool, UnarchivePool))(id=random.choice(TREE))
            case 7:
                return ReturnUnits(id=hold, token="me")
            case 8:
                return ReassignHold(id=hold, token="me", account=birth["account"])
            case _:
                return ExtendHold(id=hold, token="me", by_slots=random.choice((5, 100)) * SECOND)


CHANGED: Final[dict[str, tuple[int | None, ...]]] = {
    "retention": (300 * SECOND, 1_500 * SECOND, 10_000 * SECOND),
    "retention_consumed": (300 * SECOND, 1_500 * SECOND, 10_000 * SECOND),
    "retry_window": (20 * SECOND, 500 * SECOND, 10_000 * SECOND),
    "max_holds": (3, 8, None),
    "max_pools": (6, 12, None),
    "max_operations": (4, 30, None),
}


class Operator:
    """An operator who changes the stored limits back and forth."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def command(self) -> AnyCommand:
        """The next command."""
        random = self._random
        names = random.sample(sorted(CHANGED), random.choice((1, 1, 2))) if random.random() < 0.5 else ["retention"]
        op = f"limits{random.randrange(6)}" if random.random() < 0.4 else None
        changes = {name: random.choice(CHANGED[name]) for name in names}
        return ChangeLimits(changes=changes, if_version=random.choice((None, None, None, 0, 1, 2)), op=op)
