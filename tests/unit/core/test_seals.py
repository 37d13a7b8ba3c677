"""Seals: every change of a sealed entry changes a digest, and a lawful erasure changes none."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from holdkit.core.codec import canonical_json, encode_entry
from holdkit.core.entries import Action, Effect, Entry
from holdkit.core.model import HeldLeg, Pool, StoredHold
from holdkit.core.personal import erase, fields
from holdkit.core.seals import (
    BEGINNING,
    Salts,
    Seal,
    decode_salts,
    decode_seal,
    digest_of,
    encode_salts,
    encode_seal,
    erased,
    follows,
    seal_of,
    seal_row,
    seal_run,
)
from tests.unit.core.command_strategies import ANY_JUMPS, LIMITS, programs
from tests.unit.core.test_properties import Program, run, start
from tests.unit.core.world import hold_id

SALT = bytes(range(16))
STUB = "erased:0123456789abcdef"
POOL = Entry(1, Action.POOL_CREATED, "p", "", (Effect(Pool("", "p", 3), total=3),))
HELD = Entry(
    2,
    Action.HOLD_HELD,
    hold_id("a"),
    hold=StoredHold("", hold_id("a"), (HeldLeg("p", 1, 1),), "hash", 2, 1, entity="user:7", account="ann"),
    actor="user:ann",
)
RUN = [(1, POOL), (2, HELD), (3, structs.replace(HELD, slot=3))]


def sealed() -> Seal:
    return seal_run(0, RUN, None, "g1", 9, SALT)


def test_the_digest_is_what_the_format_says() -> None:
    """Written out by hand: other programs can check a seal, and no release may change this unnoticed."""
    seal = seal_run(4, [(1, POOL), (2, HELD)], None, "g1", 9, SALT)

    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    entry_salt = sha("000102030405060708090a0b0c0d0e0f/2")[:32]
    salts = {path: sha(f"{entry_salt}/{path}")[:32] for path in ("actor", "hold.account", "hold.entity")}
    commitments = [
        ["actor", sha(f"{salts['actor']}/user:ann")],
        ["hold.account", sha(f"{salts['hold.account']}/ann")],
        ["hold.entity", sha(f"{salts['hold.entity']}/user:7")],
    ]
    pool = '{"action":"pool.created","effects":[{"pool":{"id":"p","tenant":"","total":3},"total":3}],"slot":1,"subject":"p"}'
    held = (
        '{"action":"hold.held","actor":"","hold":{"account":"","entity":"","fence":1,"held_at":2,"id":"00000000000000000000000000000061",'
        '"legs":[{"held":1,"pool":"p","quantity":1}],"owner_hash":"hash","tenant":""},"slot":2,"subject":"00000000000000000000000000000061"}'
    )
    texts = [f"[4,1,{pool},[]]", f"[4,2,{held},{canonical_json(commitments)}]"]
    whole = b"holdkit.seal.1" + f'["{"0" * 64}",4,"g1",1,2,9]'.encode()
    whole += b"".join(hashlib.sha256(text.encode()).digest() for text in texts)
    assert seal.digest == hashlib.sha256(whole).hexdigest()
    assert (seal.first, seal.last, seal.previous, seal.name) == (1, 2, BEGINNING, "4/1-2")


CHANGED: list[tuple[str, Any]] = [
    ("another number", [(1, POOL), (2, HELD), (4, RUN[2][1])]),
    ("swapped", [(1, POOL), (2, RUN[2][1]), (3, HELD)]),
    ("one missing", RUN[:2]),
    ("one more", [*RUN, (4, HELD)]),
    ("another slot", [(1, structs.replace(POOL, slot=2)), *RUN[1:]]),
    ("another actor", [RUN[0], (2, structs.replace(HELD, actor="user:bob")), RUN[2]]),
    ("no actor", [RUN[0], (2, structs.replace(HELD, actor=None)), RUN[2]]),
    ("a stub without an erasure", [RUN[0], (2, erase(HELD, ["actor"], STUB)), RUN[2]]),
]


@pytest.mark.parametrize(("_what", "entries"), CHANGED, ids=[what for what, _ in CHANGED])
def test_every_change_of_an_entry_changes_the_digest(_what: str, entries: Any) -> None:
    assert digest_of(sealed(), RUN) == sealed().digest
    assert digest_of(sealed(), entries) != sealed().digest


@pytest.mark.parametrize("field", ["lane", "first", "last", "slot", "generation", "previous", "salts"])
def test_every_change_of_a_seal_changes_the_digest(field: str) -> None:
    other: dict[str, Any] = {"generation": "g2", "previous": "1" * 64, "salts": Salts("00" * 16)}
    changed = structs.replace(sealed(), **{field: other.get(field, 7)})
    assert digest_of(changed, RUN) != sealed().digest


def test_a_seal_follows_the_one_before_it() -> None:
    first = sealed()
    second = seal_run(0, [(4, HELD)], first, "g1", 10, SALT)
    assert second.previous == first.digest
    assert follows(first, None)
    assert follows(second, first)
    assert not follows(second, None)
    late = structs.replace(first, first=5)
    assert [follows(late, None, archived) for archived in (3, 4, 5)] == [False, True, True]
    assert not follows(structs.replace(first, first=0), None, 4)
    assert not follows(structs.replace(second, first=5), None, 4), "what is before it was sealed, and is missing"
    assert not follows(first, first)
    assert not follows(structs.replace(second, first=5), first)
    assert not follows(structs.replace(second, previous=BEGINNING), first)
    assert not follows(structs.replace(first, previous=first.digest), None)
    assert not follows(structs.replace(first, first=2), None)


def test_an_erased_field_verifies_and_its_salt_is_gone() -> None:
    seal = sealed()
    after = erased(seal, 2, HELD, ["actor", "hold.metadata"])
    entries = [RUN[0], (2, erase(HELD, ["actor"], STUB)), RUN[2]]
    assert digest_of(after, entries) == seal.digest
    assert after.salts.run is None
    assert after.salts.fields[2].keys() == {"hold.entity", "hold.account"}
    assert after.salts.erased.keys() == {2}
    assert after.salts.erased[2].keys() == {"actor"}
    assert sorted(after.salts.entries) == [1, 3]
    text = encode_salts(after.salts)
    salt = hashlib.sha256(f"{SALT.hex()}/2".encode()).hexdigest()[:32]
    assert SALT.hex() not in text
    assert salt not in text
    assert hashlib.sha256(f"{salt}/actor".encode()).hexdigest()[:32] not in text


def test_what_is_not_erased_stays_covered() -> None:
    after = erased(sealed(), 2, HELD, ["actor"])
    stub = erase(HELD, ["actor"], STUB)
    for changed in (
        structs.replace(stub, slot=7),
        structs.replace(stub, actor="user:mallory"),
        structs.replace(stub, actor=None),
        erase(stub, ["hold.entity"], STUB),
    ):
        assert digest_of(after, [RUN[0], (2, changed), RUN[2]]) != after.digest
    others = [RUN[0], (2, stub), (3, erase(RUN[2][1], ["actor"], STUB))]
    assert digest_of(after, others) != after.digest


def test_erasing_more_and_erasing_again() -> None:
    seal = sealed()
    once = erased(seal, 2, HELD, ["actor"])
    stub = erase(HELD, ["actor"], STUB)
    twice = erased(once, 2, stub, ["actor", "hold.entity"])
    both = erase(stub, ["hold.entity"], STUB)
    assert digest_of(twice, [RUN[0], (2, both), RUN[2]]) == seal.digest
    assert twice.salts.fields[2].keys() == {"hold.account"}
    assert erased(twice, 2, both, ["actor", "hold.entity"]) is twice
    assert erased(seal, 1, POOL, ["actor"]) is seal
    third = erased(twice, 3, RUN[2][1], ["actor"])
    last = [RUN[0], (2, both), (3, erase(RUN[2][1], ["actor"], STUB))]
    assert digest_of(third, last) == seal.digest
    assert sorted(third.salts.entries) == [1]


def test_forged_salts_are_noticed() -> None:
    after = erased(sealed(), 2, HELD, ["actor"])
    entries = [RUN[0], (2, erase(HELD, ["actor"], STUB)), RUN[2]]
    for salts in (
        structs.replace(after.salts, erased={2: {"actor": "0" * 64}}),
        structs.replace(after.salts, fields={2: {}}),
        structs.replace(after.salts, entries={}),
        decode_salts("nonsense"),
    ):
        assert digest_of(structs.replace(after, salts=salts), entries) != after.digest
    unsalted = erased(structs.replace(sealed(), salts=decode_salts("{}")), 2, HELD, ["actor"])
    assert digest_of(unsalted, entries) != after.digest


def test_seals_are_stored_as_text() -> None:
    after = structs.replace(erased(sealed(), 2, HELD, ["actor"]), signature="aa", key_id="k")
    assert decode_salts(encode_salts(after.salts)) == after.salts
    assert decode_seal(encode_seal(after)) == after
    assert seal_of(seal_row(after)) == after


@settings(max_examples=30, deadline=None)
@given(programs(ANY_JUMPS), LIMITS)
def test_any_journal_can_be_sealed_and_erased(program: Program, limits: dict[str, Any]) -> None:
    world = start(limits)
    run(world, program)
    entries = list(enumerate(world.entries, 1))
    seal = seal_run(3, entries, None, "g", 5, SALT)
    for seq, entry in entries:
        changed = [*entries[: seq - 1], (seq, structs.replace(entry, slot=entry.slot + 1)), *entries[seq:]]
        assert digest_of(seal, changed) != seal.digest
    after = seal
    for seq, entry in entries[::2]:
        after = erased(after, seq, entry, fields(entry).keys())
        entries[seq - 1] = (seq, erase(entry, fields(entry), STUB))
    assert digest_of(after, entries) == seal.digest
    assert encode_entry(entries[0][1])
