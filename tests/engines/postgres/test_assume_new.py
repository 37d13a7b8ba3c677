"""A batch does not look for rows that it assumes to be new; where one exists after all, the answer is the same as ever."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.commands import Group
from holdkit.core.outcomes import Done, Refusal
from holdkit.engines.postgres.transactions import CHECK_AGAIN_FOR
from holdkit.reports import Reason
from tests.engines.commands import create, groups
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import done, place

ID = "0" * 31 + "1"


def looks(seen: list[str]) -> int:
    """How often something was looked for, since last asked."""
    count = sum(name in ("load_holds", "load_operations") for name in seen)
    seen.clear()
    return count


@pytest.mark.parametrize("given", [{"op": "x"}, {"id": ID}, {"op": "x", "id": ID}], ids=str)
@pytest.mark.usefixtures("no_notifier")  # its statements would be counted
def test_what_is_there_already_is_met_and_looked_for_for_a_while(open_engine: Open, given: dict[str, Any]) -> None:
    seen: list[str] = []
    engine = open_engine(on_statement=seen.append, guarded=False)
    done(engine, create("p", total=1_000))
    seen.clear()

    command = place("p", **given)
    first = done(engine, command)
    assert looks(seen) == 0
    ((again,), (other,)) = engine.apply(groups(command, place("p"))).outcomes
    assert looks(seen) > 0
    if "op" in given:
        assert isinstance(again, Done)
        assert again.replayed
        assert again.hold == first.hold
    else:
        assert again == Refusal(Reason.HOLD_EXISTS, ID)
    assert isinstance(other, Done), "its neighbour is not held back"
    assert engine.apply(groups(place("p", op="other"))).wrote
    assert looks(seen) > 0, "retries come in swarms"
    for number in range(CHECK_AGAIN_FOR):
        done(engine, place("p", op=f"n{number}"))
    seen.clear()
    done(engine, place("p", op="last"))
    assert looks(seen) == 0, "trust comes back"
    assert not list(engine.verify())


@pytest.mark.parametrize("atomic", [False, True])
def test_a_birth_that_is_refused_is_refused_for_the_first_reason(open_engine: Open, atomic: bool) -> None:
    """Not written, it would not be noticed that its id is taken."""
    engine = open_engine()
    done(engine, create("p", total=1))
    done(engine, place("p", id=ID))
    commands = (place("p", id=ID), place("p")) if atomic else (place("p", id=ID),)
    ((first, *_),) = engine.apply([Group(commands, atomic)]).outcomes
    assert first == Refusal(Reason.HOLD_EXISTS, ID)
