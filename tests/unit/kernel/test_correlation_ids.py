"""A correlation id may be a UUID wherever a correlation id may be said; what is kept and told is its text."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from holdkit import InvalidRequest, Leg, context
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold

ID = UUID("8B2F0C7E-11d4-4c5a-9d6e-0123456789ab")
TEXT = "8b2f0c7e-11d4-4c5a-9d6e-0123456789ab"


def last(hk: Any) -> Any:
    return hk.journal.list()[-1].correlation_id


def test_in_a_call(hk: Any) -> None:
    hold = hk.hold("p", 1, ttl=60, correlation_id=ID)
    assert (hold.correlation_id, hk.get(hold).correlation_id, last(hk)) == (TEXT, TEXT, TEXT)


def test_in_the_context(hk: Any) -> None:
    with context(correlation_id=ID):
        hold = hk.hold("p", 1, ttl=60)
        assert hk.confirm(hold).correlation_id == TEXT
    assert last(hk) == TEXT


def test_in_a_command_of_a_batch(hk: Any) -> None:
    hk.apply([CreatePool(id="q", total=1, correlation_id=ID), PlaceHold(legs=(Leg("p"),), ttl=60, correlation_id=ID)])
    assert [entry.correlation_id for entry in hk.journal.list()[-2:]] == [TEXT, TEXT]
    with context(correlation_id=ID):
        hk.apply([CreatePool(id="r", total=1), CreatePool(id="s", total=1, correlation_id="mine")])
    assert [entry.correlation_id for entry in hk.journal.list()[-2:]] == [TEXT, "mine"]


def test_a_retry_under_another_is_the_same_operation(hk: Any) -> None:
    first = hk.hold("p", 1, ttl=60, op="o", correlation_id=ID)
    assert hk.hold("p", 1, ttl=60, op="o", correlation_id="other").id == first.id


def test_faces(hk: Any) -> None:
    claim = hk.claims.hold("seat", "1", ttl=60, correlation_id=ID)
    assert claim.correlation_id == TEXT
    with hk.holding("p", 1, ttl=60, correlation_id=ID) as hold:
        assert hold.correlation_id == TEXT
    assert last(hk) == TEXT


@pytest.mark.parametrize("wrong", [7, b"x", ["x"], ID.int])
def test_what_is_neither_is_refused(hk: Any, wrong: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.hold("p", 1, ttl=60, correlation_id=wrong)
    assert (refused.value.field, refused.value.code) == ("correlation_id", "correlation_id_not_text")
    with pytest.raises(InvalidRequest) as refused, context(correlation_id=wrong):
        pass
    assert refused.value.code == "correlation_id_not_text"
    with pytest.raises(InvalidRequest) as refused:
        hk.apply([ConfirmHold(id="0" * 32, correlation_id=wrong)])
    assert refused.value.code == "correlation_id_not_text"
