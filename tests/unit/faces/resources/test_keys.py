"""Keys and windows as text: equal ones give equal text, different ones different text, and all can be decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import new_class
from typing import Any, NewType
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

import holdkit
from holdkit import InvalidRequest, Resource
from holdkit.core.values import MAX_ID
from holdkit.faces.resource_keys import Names
from holdkit.resources import ResourceKernel

ShowId = NewType("ShowId", int)


@dataclass(frozen=True)
class Room:
    hotel: str
    number: int
    vip: bool = False


class Night(Struct, frozen=True, tag="night", rename="camel"):
    first_day: date
    nights: int


class Product(pydantic.BaseModel):
    sku: str
    size: int | None = None


class Mode(Enum):
    RED = "red"


class Hour(Struct, frozen=True):
    starts: datetime


@dataclass
class Parcel:
    product: Product
    night: Night
    mode: Mode
    mark: UUID


NIGHT = Night(date(2026, 1, 2), 3)
VALUES: list[tuple[Any, Any]] = [
    (str, "a"), (str, 'quote " slash / backslash \\ é 🎟'), (int, 5), (int, -(2**63) + 1), (type(None), None),
    (None, None), (tuple[str, int], ("a", 1)), (tuple[str, ...], ()), (Room, Room("Ritz", 5)),
    (Room, Room("Ritz", 5, vip=True)), (Night, NIGHT), (Product, Product(sku="lamp")), (ShowId, ShowId(5)),
    (Mode, Mode.RED), (UUID, UUID(int=5)), (date, date(2026, 1, 2)), (Hour, Hour(datetime(2026, 1, 2, tzinfo=UTC))),
    (Hour, Hour(datetime.fromisoformat("2026-01-02"))), (Parcel, Parcel(Product(sku="x"), NIGHT, Mode.RED, UUID(int=1))),
    (Any, ("a", (1, None, True))), (str | None, None), (str, "x" * 5_000), (str, "ü" * 200),
]  # fmt: skip


def resource(key: Any, window: Any = Any) -> type[Resource[Any, Any]]:
    body = {"kind": "made", "capacity": lambda *_: 1}
    return new_class("Made", (Resource[key, window],), exec_body=lambda namespace: namespace.update(body))


def names(key: Any, window: Any = Any) -> Names[Any, Any]:
    return Names(resource(key, window), Resource)


def named(cls: type[Any]) -> Names[Any, Any]:
    return Names(cls, Resource)


def kernel(hk: holdkit.Kernel, key: Any, window: Any = Any) -> ResourceKernel[Any, Any]:
    return hk.resource(resource(key, window)())


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda each: str(each)[:30])
def test_a_key_and_a_window_are_read_back(kind: Any, value: Any) -> None:
    with holdkit.connect("memory://") as hk:
        face = kernel(hk, kind, kind)
        hold = face.hold(value, value, ttl=60)
        assert len(hold.legs[0].pool) <= MAX_ID
        assert face.named(hold) == (value, value)
        (listed,) = face.holds(value)
        assert (listed.key, listed.window, listed.hold.id) == (value, value, hold.id)
        assert [each.key for each in face.pools()] == [value]
        with pytest.raises(holdkit.InsufficientCapacity):
            face.hold(value, value, ttl=60)
        assert hk.admin.verify().ok


def test_different_values_have_different_names() -> None:
    different = ["1", 1, None, ("1",), (1,), ((1,),), True, "true", "null", "", " ", "a/b", 'a"', ("a", "b"), "[1]",
                 "x" * 400, "x" * 401, "#" * 33]  # fmt: skip
    made = {names(Any).name(key, window).pool for key in different for window in (None, "1", 1)}
    assert len(made) == 3 * len(different)


@given(st.recursive(st.none() | st.integers(-9, 9) | st.text("ab/\"[],#é", max_size=4), lambda inner: st.tuples(inner, inner)),
       st.none() | st.integers(-9, 9) | st.text("ab/\"[],#", max_size=200))  # fmt: skip
def test_any_plain_value_is_read_back(key: Any, window: Any) -> None:
    found = names(Any)
    name = found.name(key, window)
    if not name.hashed:
        texts = found.texts(name.pool)
        assert texts == name.full
        assert found.values(texts) == (key, window)
    assert found.values_of(f"[{','.join(name.full)}]") == (key, window)


def test_the_names_never_change() -> None:
    """Stored for ever: another text would be another pool."""
    found = names(Room, Night)
    assert found.name(Room("Ritz", 5), NIGHT).pool == (
        '~r/made/{"hotel":"Ritz","number":5,"vip":false}/{"firstDay":"2026-01-02","nights":3,"type":"night"}'
    )
    assert names(str).name("x" * 200, None).pool == "~r/made/#a8ffdff348c73cc98ee19844eb285bd0/null"


def test_one_moment_in_two_zones_is_one_key() -> None:
    there = datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=1)))
    found = names(Hour)
    assert found.name(Hour(there), None) == found.name(Hour(datetime(2026, 1, 2, tzinfo=UTC)), None)


class Stranger:
    pass


class Shout(str):
    __slots__ = ()


def deep() -> Any:
    value: Any = ()
    for _ in range(40):
        value = (value,)
    return value


WRONG: list[tuple[Any, Any, str]] = [
    (Any, 1.0, "unsupported"), (Any, [1], "unsupported"), (Any, {"a": 1}, "unsupported"), (Any, {1}, "unsupported"),
    (Any, Decimal(1), "unsupported"), (Any, b"a", "unsupported"), (Any, Stranger(), "unsupported"),
    (Any, Stranger, "unsupported"), (Any, Shout("a"), "unsupported"), (Any, (1, [2]), "unsupported"),
    (Any, float("nan"), "unsupported"), (Any, deep(), "too_deep"), (Any, "x" * 20_000, "too_long"),
    (Any, "a\x00b", "unprintable"), (Any, "\ud800", "unprintable"), (Any, "a\x7f", "unprintable"),
    (Any, 2**63, "out_of_range"), (str, 1, "mistyped"), (int, "1", "mistyped"), (int, True, "mistyped"),
    (type(None), "a", "mistyped"), (Room, Product(sku="a"), "mistyped"), (Room, ("Ritz", 5), "mistyped"),
    (Product, "lamp", "mistyped"), (str, None, "mistyped"), (Any, date(2026, 1, 2), "mistyped"),
    (Stranger, "a", "mistyped"),
]  # fmt: skip


@pytest.mark.parametrize("field", ["key", "window"])
@pytest.mark.parametrize(("kind", "value", "code"), WRONG, ids=lambda each: str(each)[:20])
def test_others_are_refused(kind: Any, value: Any, code: str, field: str) -> None:
    call: Callable[[], Any]
    if field == "key":
        call = lambda: names(kind, None).name(value, None)  # noqa: E731
    else:
        call = lambda: names(str, kind).name("a", value)  # noqa: E731
    with pytest.raises(InvalidRequest) as caught:
        call()
    assert (caught.value.field, caught.value.code) == (field, f"{field}_{code}")


def test_types_are_inherited_and_may_be_left_open() -> None:
    class Base(Resource[str, int]):
        kind = "base"

    class Child(Base):
        kind = "child"

    class Open(Resource):  # type: ignore[type-arg]
        kind = "open"

    with pytest.raises(InvalidRequest):
        named(Child).name(1, 1)
    assert named(Child).name("a", 1).pool == '~r/child/"a"/1'
    assert named(Open).name(("a", 1), None).pool == '~r/open/["a",1]/null'


def test_a_long_name_that_nobody_wrote_down() -> None:
    with holdkit.connect("memory://") as hk, pytest.raises(InvalidRequest):
        kernel(hk, str).named("~r/made/#1b8e9dd0c3bb1ae0f7b6e3ad8ab4b7f4/null")
