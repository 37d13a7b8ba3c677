"""Seals on every engine that keeps them: whatever is changed is named by its first broken run, and a lawful erasure is not."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from msgspec import structs

import holdkit
from holdkit.core.commands import PutRecord
from holdkit.core.lanes import lane_of_record
from holdkit.core.model import SECOND
from holdkit.core.personal import erase
from holdkit.core.seals import Salts, Seal, erased, seal_run
from holdkit.errors import EngineError, InvalidRequest
from holdkit.kernel.opening import open_engine
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer, Sealing
from holdkit.kernel.signing import PublicKey, SigningKey
from tests.engines.sealed_stores import PostgresStore, SealedStore, SqliteStore, changed, with_engine

STUB = "erased:0123456789abcdef"
RUNS = 3
EACH = 4


def names(lane: int, lanes: int) -> list[str]:
    """Ids of records in a lane."""
    return [name for name in map(str, range(200)) if lane_of_record(("", "note", name), lanes) == lane][:EACH]


def fill(store: SealedStore, anchor: Path | None = None, key: Path | None = None) -> None:
    """Three runs of four entries in the lane that is changed, and as many in another one if there is one."""
    with holdkit.connect(store.url) as hk:
        engine = hk._executor.engine
        sealer = Sealing(anchor=anchor, key=key).sealer(engine)
        for run in range(RUNS):
            for lane in {store.lane, engine.lanes - 1}:
                for name in names(lane, engine.lanes):
                    hk._executor.execute(PutRecord(kind="note", id=name, body=f'"{run}"', actor="user:ann"))
            assert sealer.step(all_now=True) == min(engine.lanes, 2)
        assert sealer.step(all_now=True) == 0


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SealedStore:
    if request.param == "postgres":
        return PostgresStore(request.getfixturevalue("migrated")(lanes=4))
    return SqliteStore(tmp_path)


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    key = Ed25519PrivateKey.generate()
    path = tmp_path / "seal.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "seal.pub").write_bytes(public)
    return path


def broken(store: SealedStore, **options: Any) -> list[tuple[str, str]]:
    """The runs that are named, and which field of each."""
    found = with_engine(store, lambda engine: list(verify_seals(engine, **options)))
    return [(one.key, one.field) for one in found]


def rewritten(seals: list[Seal], entries: list[Any], store: SealedStore) -> list[Seal]:
    """The chain as somebody would compute it who has changed entries."""
    made: list[Seal] = []
    for seal in seals:
        run = [one for one in entries if seal.first <= one[0] <= seal.last]
        before = made[-1] if made else None
        made.append(seal_run(store.lane, run, before, seal.generation, seal.slot, bytes(16)))
    return made


def test_a_sealed_journal_is_clean(store: SealedStore) -> None:
    fill(store)
    assert broken(store) == []
    assert [(seal.first, seal.last) for seal in store.seals()] == [(1, 4), (5, 8), (9, 12)]


def test_one_changed_entry(store: SealedStore) -> None:
    fill(store)
    store.write(changed(store.entries(), 6, actor="user:bob"), store.seals())
    assert broken(store) == [(f"{store.lane}/5-8", "digest")]


def test_two_swapped_entries(store: SealedStore) -> None:
    fill(store)
    entries = store.entries()
    entries[5], entries[9] = (6, entries[9][1]), (10, entries[5][1])
    store.write(entries, store.seals())
    assert broken(store) == [(f"{store.lane}/5-8", "digest")]


def test_a_removed_run(store: SealedStore) -> None:
    """Of the entries, of the seals, or of both."""
    fill(store)
    entries, seals = store.entries(), store.seals()
    store.write(entries[:4] + entries[8:], seals)
    assert [key for key, _ in broken(store)] == [f"{store.lane}/5-8"]
    store.write(entries, [seals[0], seals[2]])
    assert broken(store) == [(f"{store.lane}/9-12", "previous")]
    store.write(entries[:4] + entries[8:], [seals[0], seals[2]])
    assert broken(store) == [(f"{store.lane}/9-12", "previous")]


def test_forged_salts(store: SealedStore) -> None:
    fill(store)
    seals = store.seals()
    forged = structs.replace(seals[1], salts=Salts("00" * 16))
    store.write(store.entries(), [seals[0], forged, seals[2]])
    assert broken(store) == [(f"{store.lane}/5-8", "digest")]


def test_a_cut_tail_is_shown_by_the_anchor_alone(store: SealedStore, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.jsonl"
    fill(store, anchor)
    assert broken(store, anchor=anchor) == []
    store.write(store.entries()[:8], store.seals()[:2])
    assert broken(store) == []
    assert broken(store, anchor=anchor) == [(f"{store.lane}/-12", "anchor")]


def test_a_whole_chain_computed_anew_is_shown_by_the_anchor_and_by_signatures(
    store: SealedStore, tmp_path: Path, pem: Path
) -> None:
    anchor = tmp_path / "anchor.jsonl"
    fill(store, anchor, pem)
    key = PublicKey.load(tmp_path / "seal.pub")
    assert broken(store, anchor=anchor, keys=[key]) == []
    entries, seals = changed(store.entries(), 6, actor="user:bob"), store.seals()
    made = rewritten(seals, entries, store)
    store.write(entries, made)
    assert broken(store) == []
    assert broken(store, anchor=anchor) == [(f"{store.lane}/1-4", "anchor")]
    assert broken(store, keys=[key]) == [(f"{store.lane}/1-4", "signature")]
    kept = [
        structs.replace(new, signature=old.signature, key_id=old.key_id) for new, old in zip(made, seals, strict=True)
    ]
    store.write(entries, kept)
    assert broken(store, keys=[key]) == [(f"{store.lane}/1-4", "signature")]


def test_seals_that_were_all_removed_are_missed_where_signatures_are_asked_for(
    store: SealedStore, tmp_path: Path, pem: Path
) -> None:
    anchor = tmp_path / "anchor.jsonl"
    fill(store, anchor, pem)
    store.write(store.entries(), [])
    if isinstance(store, PostgresStore):
        with psycopg.connect(store.url) as db:
            db.execute("delete from holdkit.seals")
    assert broken(store) == []
    assert (f"{store.lane}/-4", "anchor") in broken(store, anchor=anchor)
    assert broken(store, keys=[PublicKey.load(tmp_path / "seal.pub")]) == [("of all lanes", "signature")]


def test_a_lawful_erasure_verifies_and_a_change_beside_it_does_not(store: SealedStore) -> None:
    fill(store)
    entries, seals = store.entries(), store.seals()
    seals[1] = erased(seals[1], 6, entries[5][1], ["actor"])
    entries[5] = (6, erase(entries[5][1], ["actor"], STUB))
    store.write(entries, seals)
    assert broken(store) == []
    store.write(changed(entries, 6, slot=1), seals)
    assert broken(store) == [(f"{store.lane}/5-8", "digest")]
    store.write(changed(entries, 6, actor="user:bob"), seals)
    assert broken(store) == [(f"{store.lane}/5-8", "digest")]


def test_runs_before_the_first_signature_are_covered_by_it(store: SealedStore, tmp_path: Path, pem: Path) -> None:
    fill(store)
    key = PublicKey.load(tmp_path / "seal.pub")
    assert (f"{store.lane}/1-4", "signature") in broken(store, keys=[key])
    seals = store.seals()
    signer = SigningKey.load(pem)
    last = structs.replace(seals[-1], signature=signer.sign(seals[-1].digest), key_id=signer.id)
    store.write(store.entries(), [*seals[:-1], last])
    assert not [key for key, _ in broken(store, keys=[key]) if key.startswith(f"{store.lane}/")]


def test_of_two_sealers_one_wins(store: SealedStore) -> None:
    fill(store)
    with closing(open_engine(store.url)) as engine:
        seals = engine.capabilities.seals
        assert seals is not None
        there = seals.read_seals(store.lane, 0, 1)[0]
        assert seals.add_seal(there, seals.rewrites())
        assert not seals.add_seal(structs.replace(there, digest="0" * 64), seals.rewrites())
        assert seals.read_seals(store.lane, 0, 1) == [there]


def test_a_short_run_is_sealed_when_it_is_old_enough(tmp_path: Path) -> None:
    now = [1_000 * SECOND]
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db", clock=lambda: now[0]) as hk:
        hk.create_pool("p", total=1)
        sealer = Sealer(hk._executor.engine, after=60 * SECOND)
        assert sealer.step() == 0
        now[0] += 60 * SECOND - 1
        assert sealer.step() == 0
        now[0] += 1
        assert sealer.step() == 1
        assert sealer.step() == 0


def test_the_sweeper_seals(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.jsonl"
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        committed = hk.create_pool("p", total=1)
        assert committed.id == "p"
        with hk.sweeper(every=0.01, seals=Sealing(after=0.000_001, anchor=anchor)):
            wait_for(lambda: anchor.exists() and anchor.read_bytes().endswith(b"\n"))
        assert list(verify_seals(hk._executor.engine, anchor=anchor)) == []


def wait_for(condition: Any) -> None:
    """Until it is true, for a minute at most."""
    import threading
    import time

    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the sweeper has sealed nothing"
        threading.Event().wait(0.005)


def test_an_unfinished_anchor_line_is_ended_and_a_changed_one_is_named(tmp_path: Path) -> None:
    store, anchor = SqliteStore(tmp_path), tmp_path / "anchor.jsonl"
    anchor.write_bytes(b'{"lane":0,"las')
    fill(store, anchor)
    assert broken(store, anchor=anchor) == []
    anchor.write_bytes(anchor.read_bytes() + b'{"lane":"x"}\n')
    with pytest.raises(EngineError, match="line 5 of the anchor"):
        broken(store, anchor=anchor)
    with pytest.raises(EngineError, match="has no seals"):
        broken(store, anchor=tmp_path / "missing")


def test_the_memory_engine_keeps_no_seals() -> None:
    with holdkit.connect("memory://") as hk, pytest.raises(InvalidRequest, match="keeps no seals"):
        hk.sweeper(seals=Sealing())


def test_keys_that_are_none(tmp_path: Path, pem: Path) -> None:
    assert SigningKey.load(pem).id == PublicKey.load(tmp_path / "seal.pub").id == PublicKey.load(pem).id
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nothing")
    for load in (SigningKey.load, PublicKey.load):
        for path in (nonsense, tmp_path / "missing"):
            with pytest.raises(InvalidRequest) as raised:
                load(path)
            assert raised.value.field == "key"
    digest = hashlib.sha256(b"x").hexdigest()
    assert not PublicKey.load(pem).verifies("zz", digest)
    assert not PublicKey.load(pem).verifies("00" * 64, digest)
    assert PublicKey.load(pem).verifies(SigningKey.load(pem).sign(digest), digest)
