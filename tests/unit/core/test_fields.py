"""What is true of a field is read from its markers."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from holdkit.core.command_kinds import Command, HoldCommand, kinds_of
from holdkit.core.commands import COMMANDS, ConfirmHold, ReleaseHold, Sweep
from holdkit.core.fields import (
    Changing,
    Fact,
    Fixed,
    Granted,
    Personal,
    any_differs,
    compiled,
    defaults_of,
    fields_that,
    says_more,
)


class Row(Struct):
    id: Fixed[str]
    at: Granted[int]
    who: Changing[Personal[str | None]] = None
    count: Changing[int] = 7
    later: Changing[int | UnsetType] = UNSET
    plain: int = 0
    large: int = 10**9


def test_fields_are_found_by_what_is_true_of_them() -> None:
    assert fields_that(Fact.FIXED, Row) == ("id",)
    assert fields_that(Fact.GRANTED, Row) == ("at",)
    assert fields_that(Fact.CHANGING, Row) == ("who", "count", "later")
    assert fields_that(Fact.PERSONAL, Row) == ("who",)
    assert fields_that(Fact.FILED, Row) == ()


def test_defaults_belong_to_the_last_fields() -> None:
    assert defaults_of(Row) == {"who": None, "count": 7, "later": UNSET, "plain": 0, "large": 10**9}


def test_an_expression_becomes_a_function_of_its_arguments_and_names() -> None:
    assert compiled("a, b", "a * factor + b", {"factor": 10})(3, 4) == 34


def test_rows_differ_if_one_of_the_fields_does() -> None:
    differ = any_differs(["who", "count"])
    row = Row("a", 1)
    assert not differ(row, Row("b", 2, plain=5))
    assert differ(row, Row("a", 1, who="ann"))
    assert differ(row, Row("a", 1, count=8))
    assert differ(Row("a", 1, who="ann"), Row("a", 1, who="bob"))


def test_a_row_says_more_if_another_field_is_not_at_its_default() -> None:
    more = says_more(Row, ["plain"])
    assert not more(Row("a", 1))
    assert not more(Row("a", 1, large=int("1000000000"))), "equal, though another object"
    assert not more(Row("b", 2, plain=5)), "this field is among those that were named"
    assert more(Row("a", 1, who=""))
    assert more(Row("a", 1, count=8))
    assert more(Row("a", 1, later=0))


def test_kinds_of_commands_are_found_below_their_families() -> None:
    kinds = [*kinds_of(Command)]
    assert {kind.verb: kind for kind in kinds} == COMMANDS
    assert len(kinds) == len(COMMANDS)
    assert {ConfirmHold, ReleaseHold} <= {*kinds_of(HoldCommand)}
    assert Sweep not in {*kinds_of(HoldCommand)}
    assert [*kinds_of(Sweep)] == []
