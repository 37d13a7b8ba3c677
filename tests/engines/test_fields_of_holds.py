"""Every field of a stored hold, changed alone and read back, on every engine: what is true of a field is said on the
field, and what engines write, index and erase follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from msgspec import structs

import holdkit
from holdkit.core.commands import ExtendHold
from holdkit.core.decide import LADDERS
from holdkit.core.entries import Action, Change
from holdkit.core.fields import Fact, fields_that
from holdkit.core.ladders.recording import became, record
from holdkit.core.model import HeldLeg, Slot, State, StoredHold
from holdkit.core.outcomes import Done, Outcome
from holdkit.core.outstanding import Level
from holdkit.core.view import View
from holdkit.testing import FakeClock

START: Final = 1_700_000_000_000_000
ID: Final = "018bcfe568007000800000000000000a"
BASE: Final = StoredHold(
    tenant="",
    id=ID,
    legs=(HeldLeg("p", 3, 3),),
    owner_hash="o" * 32,
    held_at=START,
    fence=1,
    deadline=START + 60_000_000,
)
LONE: Final = {
    "plain": BASE,
    "of an account": structs.replace(BASE, account="ann"),
    "below a pool": structs.replace(BASE, legs=(HeldLeg("q//a", 3, 3),), above=(Level("q", 3),)),
    "offered": structs.replace(BASE, number=1, joined_at=START, offer_ttl=9),
}
"""A hold of each kind that an engine may write in another way."""
VALUES: Final[dict[str, Any]] = {
    "legs": (1, 2),
    "owner_hash": "e" * 32,
    "held_at": START + 1,
    "fence": 7,
    "deadline": START + 90_000_000,
    "state": State.CONFIRMED,
    "entity": "order:9",
    "ended_at": START + 2,
    "reason": "paid",
    "actor": "user:7",
    "correlation_id": "request 4",
    "metadata": '{"a":1}',
    "last_op": "f" * 32 + "op",
    "version": 5,
    "returned_at": START + 3,
    "closes": START + 99_000_000,
    "account": "bob",
    "above": 2,
    "joined_at": START - 5,
    "number": 4,
    "offer_ttl": 17,
}
"""Another value of each field but the two that name the hold; of legs, and of pools above them, the units."""
FIELDS: Final = StoredHold.__struct_fields__[2:]
CHANGING: Final = fields_that(Fact.CHANGING, StoredHold)
GRANTED: Final = fields_that(Fact.GRANTED, StoredHold)


def other(before: StoredHold, name: str) -> Any:
    """Another value of this field than the hold has."""
    if name == "legs":
        held, confirmed = VALUES[name]
        return (HeldLeg(before.legs[0].pool, 3, held, confirmed),)
    return tuple(Level(level.pool, VALUES[name]) for level in before.above) if name == "above" else VALUES[name]


@pytest.fixture(params=["memory", "sqlite", "postgres", "apart"])
def hk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdkit.Kernel]:
    """A kernel on every engine; `apart`: on PostgreSQL, as if its tables were distributed."""
    places = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds"}
    layout = "one server" if request.param == "postgres" else "as if"
    url = places.get(request.param) or request.getfixturevalue("migrated")(layout, lanes=4)
    with holdkit.connect(url, clock=FakeClock(START)) as kernel:
        yield kernel


@pytest.fixture
def write(hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StoredHold | None]:
    """Record that a hold was placed, or changed, and return the hold as it was stored before."""

    def stored(hold: StoredHold | None = None, **changed: Any) -> StoredHold | None:
        seen: list[StoredHold | None] = []

        def ladder(view: View, command: ExtendHold, now: Slot) -> Outcome:
            before = view.holds.get(("", ID))
            seen.append(before)
            if hold is not None:
                record(view, Action.HOLD_HELD, ID, now, command, hold=hold)
            elif changed and before is not None:
                was = {"was_account": before.account} if "account" in changed else {}
                change = structs.replace(became(before, before.legs), **was, **changed)
                record(view, Action.HOLD_EXTENDED, ID, now, command, change=change)
            return Done(now, view.holds.get(("", ID)))

        monkeypatch.setitem(cast("dict[Any, Any]", LADDERS), ExtendHold, ladder)
        hk._executor.execute(ExtendHold(id=ID, by_slots=1, force=True, reason="a test"))
        return seen[0]

    return stored


def misfiled(hk: holdkit.Kernel) -> list[str]:
    """What is stored of a hold and its legs in another way than the journal says."""
    return [str(one) for one in hk.admin.verify().differences if one.table in ("holds", "legs")]


@pytest.mark.parametrize("kind", LONE)
def test_each_field_that_changes(hk: holdkit.Kernel, write: Callable[..., StoredHold | None], kind: str) -> None:
    write(before := LONE[kind])
    for name in (*CHANGING, *GRANTED) if before.number is not None else CHANGING:
        changed = {name: other(before, name)}
        write(**changed)
        before = structs.replace(before, **{"version": before.version + 1, **changed})
        assert write() == before, name
        assert misfiled(hk) == [], name


@pytest.mark.parametrize("kind", LONE)
def test_each_field_in_another_life(hk: holdkit.Kernel, write: Callable[..., StoredHold | None], kind: str) -> None:
    write(before := LONE[kind])
    for name in [name for name in FIELDS if name not in CHANGING]:
        write(before := structs.replace(before, **{name: other(before, name)}))
        assert write() == before, name
        assert misfiled(hk) == [], name


def test_each_field_that_an_erasure_replaces(hk: holdkit.Kernel, write: Callable[..., StoredHold | None]) -> None:
    said = {name: VALUES[name] for name in fields_that(Fact.PERSONAL, StoredHold)}
    assert len(said) > 5
    write(structs.replace(BASE, **said))
    hk.admin.erase("entity", said["entity"], reason="asked")
    hk.admin.erase("account", said["account"], reason="asked")
    erased = write()
    assert erased is not None
    assert [name for name, value in said.items() if getattr(erased, name) in (value, None)] == []
    assert misfiled(hk) == []


def test_every_field_says_once_whether_it_can_change() -> None:
    lives = [name for fact in (Fact.FIXED, Fact.GRANTED, Fact.CHANGING) for name in fields_that(fact, StoredHold)]
    assert sorted(lives) == sorted(StoredHold.__struct_fields__)
    assert {*GRANTED, *CHANGING} == {*Change.__struct_fields__} - {"was", "was_deadline", "was_account"}
    assert set(VALUES) == set(FIELDS)
