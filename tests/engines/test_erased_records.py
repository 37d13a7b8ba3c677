"""Erasure of records: sagas, parked deliveries, and what the application keeps. Nothing is left of what is not in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import holdkit
from holdkit.kernel.export import export

REQUEST: dict[str, Any] = {"reason": "request 1"}


@pytest.fixture
def hk(erasable: holdkit.Kernel) -> Iterator[holdkit.Kernel]:
    erasable.create_pool("show", total=100)
    yield erasable
    assert erasable.admin.verify().ok


class Order(holdkit.Saga):
    """Holds one of show for whom its intent names."""

    name = "order"
    stop = False

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return "show"

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        if self.stop:
            raise LookupError("no answer")
        return {"sent to": intent["address"]}


INTENT = {"customer": "user:7", "address": "Ann, Main Street 1"}


def journal(hk: holdkit.Kernel) -> str:
    """All of it, as it is exported."""
    return "\n".join(str(line) for line in export(hk._executor.engine))


def test_an_ended_saga_loses_what_it_says_and_keeps_its_id(hk: holdkit.Kernel) -> None:
    order = hk.sagas.register(Order())
    order.run("a", INTENT)
    order.run("b", {"customer": "user:9", "address": "Bea"})
    assert "Main Street" in journal(hk)
    erased = hk.admin.erase("entity", "user:7", **REQUEST)
    assert (erased.records, erased.in_use, erased.found) == (1, (), True)
    assert "Main Street" not in journal(hk)
    assert "Bea" in journal(hk)
    assert (hk.sagas.get("a"), [saga.id for saga in hk.sagas.list()]) == (None, ["b"])
    assert hk.sagas.history("a") == []
    with pytest.raises(holdkit.OperationConflict, match="erased: use a new id"):
        order.run("a", INTENT)
    with pytest.raises(holdkit.InvalidRequest, match="there is no saga 'a'"):
        hk.sagas.resolve("a", "cancelled", reason="why")
    assert hk.pool("show").consumed == 2
    assert hk.sagas.recover() == holdkit.sagas.RecoveryReport()


def test_a_saga_goes_with_its_hold_even_if_it_does_not_name_the_person(hk: holdkit.Kernel) -> None:
    hk.sagas.register(Order()).run("a", {"address": "Ann, Main Street 1"})
    saga = hk.sagas.get("a")
    assert saga is not None
    hk.admin.erase("entity", "saga:a", **REQUEST)  # the entity that a saga confirms its hold with
    assert "Main Street" not in journal(hk)


def test_an_open_saga_goes_on_and_is_erased_once_it_has_ended(hk: holdkit.Kernel) -> None:
    saga = Order()
    saga.stop = True
    order = hk.sagas.register(saga)
    with pytest.raises(holdkit.OutcomeUnknown):
        order.run("a", INTENT)
    erased = hk.admin.erase("entity", "user:7", **REQUEST)
    assert (erased.records, erased.in_use) == (0, ("~saga/a",))
    assert journal(hk).count("Main Street") == 1, "what it said earlier is replaced"
    record = hk.sagas.get("a")
    assert record is not None
    assert record.intent == INTENT
    hk.sagas.resolve("a", "done", reason="it was sent")
    assert hk.admin.erase("entity", "user:7", **REQUEST).in_use == ()
    assert "Main Street" not in journal(hk)


def test_a_record_of_the_application_stays_but_not_what_it_said_earlier(hk: holdkit.Kernel) -> None:
    hk.admin.records.put("notes", "n", '{"who": "user:7", "says": "Main Street"}', op="put")
    hk.admin.records.put("notes", "other", '{"who": "user:77"}')
    erased = hk.admin.erase("entity", "user:7", **REQUEST)
    assert (erased.in_use, erased.records) == (("notes/n",), 0)
    found = hk.admin.records.get("notes", "n")
    assert found is not None
    assert "Main Street" in found.body
    hk.admin.records.put("notes", "n", "{}")
    erased = hk.admin.erase("entity", "user:7", **REQUEST)
    assert (erased.in_use, erased.entries) == ((), 1)
    assert "Main Street" not in journal(hk)
    assert "user:77" in journal(hk)
    again = hk.admin.records.put("notes", "n", '{"who": "user:7", "says": "Main Street"}', op="put")
    assert "Main Street" not in str(again)


def test_a_dry_run_counts_records_and_changes_none(hk: holdkit.Kernel) -> None:
    hk.sagas.register(Order()).run("a", INTENT)
    assert hk.admin.erase("entity", "user:7", dry_run=True).records == 1
    assert "Main Street" in journal(hk)
    assert hk.sagas.get("a") is not None


def test_another_tenants_records_stay(hk: holdkit.Kernel) -> None:
    hk.tenant("acme").admin.records.put("notes", "n", '{"who": "user:7"}')
    assert not hk.admin.erase("entity", "user:7", **REQUEST).found


def test_who_asked_for_an_erasure_can_be_erased_too(hk: holdkit.Kernel) -> None:
    hk.admin.records.put("notes", "n", '{"who": "user:7"}')
    hk.admin.records.put("notes", "n", "{}")
    hk.admin.erase("entity", "user:7", actor="user:officer", **REQUEST)
    hk.admin.erase("actor", "user:officer", reason="left", actor="user:boss")
    assert "user:officer" not in journal(hk)
    assert "user:boss" in journal(hk)
