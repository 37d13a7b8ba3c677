"""Encodings: stable, and different where they must be."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdkit.core import codec
from holdkit.core.commands import ConfirmHold, Consume, CreatePool, PlaceHold, PutRecord, ReleaseHold, ReturnUnits
from holdkit.core.entries import Action, Entry
from holdkit.core.model import Leg, Pool
from holdkit.core.outcomes import Done, Reason, Refusal, Shortfall

PLACE = PlaceHold(legs=(Leg("b", 2), Leg("a")), ttl_slots=60, actor="user:1")


def test_canonical_json() -> None:
    assert codec.canonical_json({"b": 1, "a": [1.5, None, "é"]}) == '{"a":[1.5,null,"é"],"b":1}'


def test_entries_and_outcomes_survive_their_encoding() -> None:
    entry = Entry(2, Action.POOL_CREATED, "p", "acme", actor="user:1", forced=True)
    assert codec.encode_entry(entry) == (
        '{"slot":2,"action":"pool.created","subject":"p","tenant":"acme","actor":"user:1","forced":true}'
    )
    assert codec.decode_entry(codec.encode_entry(entry)) == entry
    outcomes: list[Done | Refusal] = [
        Done(slot=1, pool=Pool("", "p", 1), token="secret", uncovered={"p": 1}),
        Refusal(Reason.INSUFFICIENT_CAPACITY, "p", (Shortfall("p", 1, 0, 0),), found=3),
    ]
    for outcome in outcomes:
        assert codec.decode_outcome(codec.encode_outcome(outcome)) == outcome
        assert codec.decode_outcome(codec.encode_outcome(outcome).encode()) == outcome


# Fingerprints


def test_a_fingerprint_is_a_stable_hash_of_the_canonical_payload() -> None:
    text = b'{"type":"CreatePool","id":"p","total":1}'
    assert codec.fingerprint(CreatePool(id="p", total=1)) == hashlib.blake2b(text, digest_size=16).hexdigest()


def test_legs_are_fingerprinted_in_order_of_their_pools() -> None:
    text = b'{"type":"PlaceHold","legs":[{"pool":"a"},{"pool":"b","quantity":2}],"ttl_slots":60}'
    made = codec.fingerprint(structs.replace(PLACE, tenant="acme", op="o", correlation_id="c", reason="r"))
    assert made == hashlib.blake2b(text, digest_size=16).hexdigest()


@pytest.mark.parametrize(
    "same",
    [
        {"correlation_id": "c"},
        {"actor": None},
        {"actor": "user:2"},
        {"reason": "r"},
        {"op": "o"},
        {"tenant": "acme"},
        {"legs": (Leg("a"), Leg("b", 2))},
    ],
)
def test_what_does_not_count(same: dict[str, Any]) -> None:
    assert codec.fingerprint(structs.replace(PLACE, **same)) == codec.fingerprint(PLACE)


@pytest.mark.parametrize(
    "other",
    [
        {"legs": (Leg("a", 2), Leg("b", 1))},
        {"legs": (Leg("a"), Leg("b", 2, 5))},
        {"ttl_slots": 61},
        {"id": "0" * 32},
        {"token": "t"},
        {"entity": "e"},
        {"metadata": {}},
    ],
)
def test_what_does(other: dict[str, Any]) -> None:
    assert codec.fingerprint(structs.replace(PLACE, **other)) != codec.fingerprint(PLACE)


def test_other_commands_too() -> None:
    consume = Consume(legs=(Leg("b", 2), Leg("a")))
    assert codec.fingerprint(consume) == codec.fingerprint(Consume(legs=(Leg("a"), Leg("b", 2)), op="o"))
    assert codec.fingerprint(consume) != codec.fingerprint(PlaceHold(legs=(Leg("b", 2), Leg("a"))))
    first = ConfirmHold(id="1", quantity={"b": 1, "a": 2}, op="o", correlation_id="c", tenant="t", trace="x")
    assert codec.fingerprint(first) == codec.fingerprint(ConfirmHold(id="1", quantity={"a": 2, "b": 1}))
    assert codec.fingerprint(first) != codec.fingerprint(ConfirmHold(id="1", quantity={"a": 2, "b": 2}))


def test_a_client_id_counts_where_the_answer_has_a_token() -> None:
    births = (PLACE, structs.replace(PLACE, legs=(Leg("a"),)), Consume(legs=(Leg("a"),)))
    for birth in births:
        ours, theirs = codec.fingerprint(birth, b"ours"), codec.fingerprint(birth, b"theirs")
        assert len({codec.fingerprint(birth), ours, theirs}) == 3
        assert codec.fingerprint(structs.replace(birth, actor="user:2", reason="r"), b"ours") == ours
    others = (CreatePool(id="p", total=1), ConfirmHold(id="1", token="t"), ReleaseHold(id="1", actor="user:1"),
              ReturnUnits(id="1", reason="r"), PutRecord(kind="k", id="1", body="{}"))  # fmt: skip
    for other in others:
        assert codec.fingerprint(other) == codec.fingerprint(structs.replace(other, actor=None, reason=None), b"ours")
        assert codec.fingerprint(other, b"ours", PLACE) == codec.fingerprint(other, b"theirs", PLACE), "of the command"
    assert codec.fingerprint(PLACE, b"ours", others[0]) != codec.fingerprint(PLACE, b"theirs", others[0])
    assert codec.fingerprint(PLACE, original=births[2]) == codec.fingerprint(births[2])


# Owners


def test_owner_hashes() -> None:
    expected = hashlib.blake2b(b"t\xc3\xb6ken", digest_size=16, person=b"holdkit.owner").hexdigest()
    assert codec.hash_owner("töken") == expected
    assert codec.same_owner("töken", expected)
    assert not codec.same_owner("token", expected)
    assert not codec.same_owner("", expected)
    assert not codec.same_owner(None, expected)


def test_digest() -> None:
    assert codec.digest("é") == hashlib.blake2b("é".encode(), digest_size=8).hexdigest()
    assert len(codec.digest("")) == 16


# Ids and tickets


def test_a_minted_id_is_a_uuid_of_version_7() -> None:
    slot = 0x0123_4567_89AB * 1000 + 999
    assert codec.minted_id(slot, b"\xff" * 10) == "0123456789ab7fffbfffffffffffffff"
    assert codec.minted_id(slot, b"\x00" * 10) == "0123456789ab70008000000000000000"
    first, second = "0123456789ab70018203040506070809", "0123456789ab7ab08c0d0e0f10111213"
    ends = codec.id_ends(bytes(range(10)) + bytes([0x0A, 0xB0, *range(12, 20)]))
    assert [codec.id_begin(slot // 1000) + end for end in ends] == [first, second]
    pieces = codec.id_ends(b"\xff" * 10 + b"\x00\x07" + b"\x00" * 10 + b"\xff\xf7", 12)
    assert pieces == ["7fffbfffffffffffffff0007", "70008000000000000000fff7"], (
        "the rest of a piece is as random as it was"
    )
    assert codec.minted_id(2**48 * 1000, b"\x00" * 10)[:12] == "0" * 12  # wraps, never grows
    assert codec.minted_at(first) == 0x0123_4567_89AB * 1000


@pytest.mark.parametrize("digit", range(16))
def test_whatever_the_randomness_the_variant_is_right(digit: int) -> None:
    made = codec.minted_id(0, bytes([0, 0, 16 * digit, *range(7)]))
    assert UUID(made).version == 7
    assert made[16] == "89ab"[digit % 4]


def test_minted_ids_sort_by_time() -> None:
    ids = [codec.minted_id(slot, b"\xff" * 10) for slot in (0, 1_000, 5_000_000, 10**15)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 4


@pytest.mark.parametrize(
    ("hold_id", "at"),
    [
        ("0123456789ab7fff8fffffffffffffff", 0x0123_4567_89AB * 1000),
        ("0123456789ab7fff9fffffffffffffff", 0x0123_4567_89AB * 1000),
        ("0123456789ab7fffafffffffffffffff", 0x0123_4567_89AB * 1000),
        ("0123456789ab7fffbfffffffffffffff", 0x0123_4567_89AB * 1000),
        ("0123456789ab7fffcfffffffffffffff", None),
        ("0123456789ab7fff7fffffffffffffff", None),
        ("0123456789ab4fffbfffffffffffffff", None),
        ("0123456789ab7fffbffffffffffffff", None),
        ("0123456789ab7fffbfffffffffffffff0", None),
    ],
)
def test_minted_at(hold_id: str, at: int | None) -> None:
    assert codec.minted_at(hold_id) == at


def test_tickets() -> None:
    ticket = codec.ticket("abc", "tok.en")
    assert ticket == "hk1.abc.tok.en.frwa", "tickets that are out must stay readable"
    assert codec.read_ticket(ticket) == ("abc", "tok.en")
    for bad in ("", "abc", "hk1.abc", "hk1..tok", "hk1.abc.", "hk2.abc.tok", "hk1", ".abc.tok", "hk1.abc.tok.en"):
        assert codec.read_ticket(bad) is None
    for bare in ("hk1.abc", "hk1.abc.", "hk1..tok", "hk2.abc.tok", "abc"):
        assert codec.read_ticket(f"{bare}.{codec._checksum(bare)}") is None


def test_a_ticket_that_was_cut_or_changed_anywhere_is_not_read() -> None:
    ticket = codec.ticket("0190f3a5c0de7000800000000000beef", "V1StGXR8_Z5jdHi6B-myTVKahvjdx28vOBQr4NLdGds")
    cuts = [ticket[:end] for end in range(len(ticket))] + [ticket[begin:] for begin in range(1, len(ticket))]
    changes = [
        ticket[:at] + other + ticket[at + 1 :] for at in range(len(ticket)) for other in "aZ0._" if other != ticket[at]
    ]
    for damaged in (*cuts, *changes, ticket.lower(), f"{ticket}.", f"{ticket} ", f"{ticket}a"):
        assert codec.read_ticket(damaged) is None, damaged


def test_what_is_meant_as_a_ticket_is_told_by_how_it_begins() -> None:
    assert codec.is_ticket("hk1.a.b")
    assert codec.is_ticket("hk1.damaged")
    assert not any(map(codec.is_ticket, ("0" * 32, "hk1", "hk2.a.b", None, 1)))


def test_a_ticket_with_half_a_character_is_not_read() -> None:
    """Such a text comes out of JSON that has one half of a surrogate pair."""
    assert codec.read_ticket("hk1.abc.\ud800.aaaa") is None
