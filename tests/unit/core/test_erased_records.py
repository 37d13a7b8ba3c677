"""What an erasure does with records: which tell of the person, and which stay because they are in use."""

from __future__ import annotations

import json

import pytest

from holdkit.core.erased_records import KEPT_WHILE, ErasedRecords, keys_to_know, texts_within
from holdkit.core.model import Record
from holdkit.core.personal import ERASED_DOCUMENT
from holdkit.faces.saga_records import KIND, OPEN
from holdkit.faces.saga_records import PARKED as PARKED_SAGA
from holdkit.server.webhooks.hooks import PARKED

HOLD = "0" * 32


def record(body: str, kind: str = "notes", version: int = 1, tenant: str = "") -> Record:
    return Record(tenant, kind, "r", body, version, 0)


def known() -> ErasedRecords:
    return ErasedRecords("", ("user:7", ""), {HOLD})


@pytest.mark.parametrize(
    ("body", "tells"),
    [
        ('"user:7"', True),
        ('{"a": [1, {"b": "user:7"}]}', True),
        ('{"user:7": 1}', True),
        (f'{{"hold": "{HOLD}"}}', True),
        (json.dumps({"body": json.dumps({"data": {"entity": "user:7"}})}), True),
        ('{"a": "user:77", "b": "", "c": null, "d": true}', False),
        ('{"a": "{user:7"}', False),
        ("user:7", False),
        ("", False),
        ("[" * 5_000, False),
    ],
)
def test_a_record_tells_if_one_of_its_texts_is_the_value(body: str, tells: bool) -> None:
    assert known().tells(record(body)) is tells
    assert not known().tells(record(body, tenant="acme"))


def test_nothing_is_replaced_before_it_is_decided() -> None:
    records, telling = known(), record('"user:7"', KIND)
    assert records.after(telling) is telling
    records.decide(telling.key, {})
    assert records.after(telling).body == ERASED_DOCUMENT


def test_what_is_in_use_stays_and_what_it_said_earlier_does_not() -> None:
    records, now, earlier = known(), record('"user:7"', version=2), record('"user:7"')
    records.decide(now.key, {now.key: now})
    assert (records.after(now), records.after(earlier).body) == (now, ERASED_DOCUMENT)
    assert records.listed() == ("notes/r",)
    changed = record("{}", version=3)
    records.decide(now.key, {now.key: changed})
    assert (records.listed(), records.after(now).body, records.after(changed)) == ((), ERASED_DOCUMENT, changed)


@pytest.mark.parametrize(("index", "kept"), [(OPEN, True), (PARKED_SAGA, True), ("other", False)])
def test_a_saga_is_in_use_until_it_has_ended(index: str, kept: bool) -> None:
    records, saga = known(), record('"user:7"', KIND)
    stored = {saga.key: saga, ("", index, "r"): record("{}", index)}
    assert {*keys_to_know(saga.key)} == {saga.key, ("", OPEN, "r"), ("", PARKED_SAGA, "r")}
    records.decide(saga.key, stored)
    assert (records.after(saga) == saga) is kept


@pytest.mark.parametrize("kind", [KIND, PARKED])
def test_such_a_record_is_concerned_as_a_whole(kind: str) -> None:
    records, first = known(), record('"Ann"', kind)
    assert not records.learn(first)
    assert records.concerned == 0
    assert records.learn(record('"user:7"', kind, 2))
    assert records.concerned == 1
    assert records.learn(first)
    records.decide(first.key, {})
    assert records.after(first).body == ERASED_DOCUMENT


def test_a_record_of_others_is_not() -> None:
    records = known()
    assert not records.learn(record('"user:7"'))
    assert not records.tells(record('"Ann"'))


def test_the_kinds_are_those_of_their_owners() -> None:
    assert KEPT_WHILE == {KIND: (OPEN, PARKED_SAGA), PARKED: ()}


@pytest.mark.parametrize("value", ["user:7", 'a "b" c', "back\\slash"])
def test_an_entry_contains_one_of_the_texts_however_deep_the_value_is(value: str) -> None:
    texts, document = texts_within(value), json.dumps({"v": value}, ensure_ascii=False)
    for _ in range(2):
        assert any(text in document for text in texts), document
        document = json.dumps({"body": document}, ensure_ascii=False)
    assert any(text in document for text in texts), document


def test_only_a_hundred_records_in_use_are_listed() -> None:
    records = known()
    for number in range(101):
        one = Record("", "notes", f"{number:03d}", '"user:7"', 1, 0)
        records.decide(one.key, {one.key: one})
    assert records.listed() == tuple(f"notes/{number:03d}" for number in range(100))


def test_of_a_plain_record_only_the_record_itself_says_whether_it_is_in_use() -> None:
    assert keys_to_know(("", "notes", "r")) == [("", "notes", "r")]


def test_a_value_is_looked_for_as_it_is_written_at_three_depths() -> None:
    assert texts_within("user:7") == ["user:7"]
    assert texts_within('"') == ['\\"', '\\\\\\"', "\\" * 7 + '"']
