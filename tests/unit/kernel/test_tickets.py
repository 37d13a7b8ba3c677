"""A ticket is one text with id, token and a checksum: one that was cut or damaged is noticed before it settles anything."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import holdkit


def test_a_damaged_ticket_settles_nothing_so_that_the_right_one_still_works_under_the_same_operation_id(
    hk: Any,
) -> None:
    hold = hk.hold("p", 1, ttl=60)
    for damaged in (hold.ticket[:-3], hold.ticket[:-8], hold.ticket.lower() + "x"):
        with pytest.raises(holdkit.InvalidRequest) as malformed:
            hk.confirm(damaged, op="payment-7")
        assert malformed.value.code == "ticket_malformed"
    assert hk.confirm(hold.ticket, op="payment-7").state == "confirmed"


def test_the_ticket_of_an_id_and_a_token(hk: Any) -> None:
    hold = hk.hold("p", 1, ttl=60, token="our own")
    assert holdkit.ticket(hold.id, "our own") == holdkit.ticket(UUID(hold.id), "our own") == hold.ticket
    assert hk.confirm(holdkit.ticket(hold.id, "our own")).state == "confirmed"
    refused: tuple[tuple[Any, Any, str], ...] = (
        (hold.id[:-1], "t", "id"),
        (hold.id, "", "token"),
        (hold.id, 7, "token"),
    )
    for id, token, field in refused:
        with pytest.raises(holdkit.InvalidRequest) as malformed:
            holdkit.ticket(id, token)
        assert malformed.value.field == field
