"""A claim that is erased while it is taken stays taken, and nothing that is stored can be tried against keys."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.core.keyed import claim_id
from holdkit.engines.erase_claims import RenameClaim
from holdkit.engines.erase_job import EraseJob
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer

KEY = ("email", "ann@example.org")
NAME = ":".join(KEY)
PLAIN = claim_id(NAME)
ERASED = re.compile(r"erased_[0-9a-f]{32}")


@pytest.fixture
def hk(erasable: holdkit.Kernel) -> holdkit.Kernel:
    return erasable


def taken(hk: holdkit.Kernel, entity: str = "user:7") -> holdkit.Hold:
    return hk.confirm(hk.claims.hold(*KEY, ttl=60, metadata={"for": "Ann"}), entity=entity)


def text_of(hk: holdkit.Kernel) -> str:
    """Everything that the journal and the reads answer."""
    entries = [str(entry.raw.entry) for entry in hk.journal.list()]
    return "\n".join(
        [
            *entries,
            *(str(hold.to_dict()) for hold in hk.holds()),
            str([pool.raw for pool in hk.pools("~")]),
            str(hk.claims.list()),
        ]
    )


def check(hk: holdkit.Kernel) -> None:
    assert PLAIN not in text_of(hk)
    assert NAME not in text_of(hk)
    assert hk.admin.verify().ok


@pytest.mark.parametrize(("by", "value"), [("claim", NAME), ("entity", "user:7")])
def test_it_stays_taken_and_is_found_by_its_key(hk: holdkit.Kernel, by: str, value: str) -> None:
    hold = taken(hk)
    assert hk.claims.list()[0].id == PLAIN
    erased = hk.admin.erase(by, value, reason="request 1")  # type: ignore[arg-type]
    check(hk)
    with pytest.raises(holdkit.AlreadyClaimed) as caught:
        hk.claims.hold(*KEY, ttl=60)
    assert caught.value.claim is not None
    assert ERASED.fullmatch(caught.value.claim)
    assert not caught.value.transient
    assert hk.claims.is_taken(*KEY)
    found = hk.claims.get(KEY[0], KEY[1])
    assert found is not None
    assert (found.id, found.key, found.entity, found.hold) == (
        caught.value.claim, erased.stub, erased.stub, hold.id,
    )  # fmt: skip
    assert hk.claims.get(*KEY) == hk.claims.get(id=PLAIN) == hk.claims.get(id=found.id) == found
    check(hk)


def test_it_is_freed_by_its_name_and_can_be_claimed_and_erased_again(hk: holdkit.Kernel) -> None:
    engine = hk._executor.engine
    sealed = engine.capabilities.seals is not None
    stubs = set()
    for number in range(3):
        taken(hk)
        assert not sealed or Sealer(engine).step(all_now=True)
        stubs.add(hk.admin.erase("claim", NAME, reason="request 1").stub)
        check(hk)
        assert hk.claims.get(*KEY) is not None
        answers = [hk.claims.free(*KEY, reason="left", op=f"free {number}") for _ in range(2)]
        assert [answer.taken for answer in answers] == [False, False]
        assert not hk.claims.is_taken(*KEY)
        check(hk)
    assert len(stubs) == 3
    hk.claims.hold(*KEY, ttl=60)
    again = hk.claims.get(*KEY)
    assert again is not None
    assert (again.id, again.key) == (PLAIN, NAME)
    assert hk.admin.verify().ok
    assert not sealed or list(verify_seals(engine)) == []


def test_held_it_is_taken_until_its_deadline_or_its_owner_gives_it_up(hk: holdkit.Kernel) -> None:
    claim = hk.claims.hold(*KEY, ttl=60)
    hk.admin.erase("claim", NAME, reason="request 1")
    check(hk)
    with pytest.raises(holdkit.AlreadyClaimed) as caught:
        hk.claims.hold(*KEY, ttl=60)
    assert caught.value.transient
    same = hk.claims.hold(*KEY, ttl=60, token=claim.token)
    assert same.id == claim.id, "whoever has the token has the claim"
    hk.release(claim)
    assert hk.claims.hold(*KEY, ttl=60).fence > claim.fence
    assert hk.admin.verify().ok


def test_a_claim_that_nobody_has_any_more_gets_a_random_id(hk: holdkit.Kernel) -> None:
    first = hk.claims.hold(*KEY, ttl=60)
    hk.release(first)
    ids, fence = set(), first.fence
    for _ in range(2):
        hk.admin.erase("claim", NAME, reason="request 1")
        check(hk)
        ids |= {leg.pool for hold in hk.holds() for leg in hold.legs}
        assert hk.claims.get(*KEY) is None
        assert not hk.claims.is_taken(*KEY)
        again = hk.claims.hold(*KEY, ttl=60)
        assert again.fence > fence
        fence = again.fence
        hk.release(again)
    assert len(ids) == 2
    assert "limits.changed" not in [entry.action for entry in hk.journal.list()], "nothing has to be recognised"


def test_a_combined_hold_and_a_batch_find_it_taken(hk: holdkit.Kernel) -> None:
    hk.create_pool("seat", total=5, per_account=3)
    both = hk.hold([holdkit.claim(*KEY), ("seat", 1)], ttl=600, account="customer:7")
    hk.confirm(both, entity="user:7")
    hk.admin.erase("account", "customer:7", reason="request 1")
    check(hk)
    with pytest.raises(holdkit.InsufficientCapacity):
        hk.hold([holdkit.claim(*KEY), ("seat", 1)], ttl=600, account="customer:9")
    placed = [
        holdkit.commands.PlaceHold(legs=(holdkit.claim(*KEY),), ttl=60),
        holdkit.commands.PlaceHold(legs=(holdkit.Leg("seat"),), ttl=60, account="x"),
    ]
    assert [one.reason for one in hk.apply(placed)] == ["insufficient_capacity", None]
    hk.admin.return_units(both, reason="refund")
    hk.hold([holdkit.claim(*KEY), ("seat", 1)], ttl=600, account="customer:9")
    assert hk.admin.verify().ok


def test_a_retry_gets_its_recorded_answer(hk: holdkit.Kernel) -> None:
    claim = hk.claims.hold(*KEY, ttl=60, op="claim")
    with pytest.raises(holdkit.AlreadyClaimed):
        hk.claims.hold(*KEY, ttl=60, op="rival")
    hk.confirm(claim, entity="user:7", op="confirm")
    hk.admin.erase("claim", NAME, reason="request 1")
    again = hk.claims.hold(*KEY, ttl=60, op="claim")
    assert (again.id, again.token, again.replayed) == (claim.id, claim.token, True)
    confirmed = hk.confirm(claim, entity="user:7", op="confirm")
    assert confirmed.replayed
    with pytest.raises(holdkit.AlreadyClaimed) as caught:
        hk.claims.hold(*KEY, ttl=60, op="rival")
    assert caught.value.replayed
    with pytest.raises(holdkit.AlreadyClaimed):
        hk.claims.hold(*KEY, ttl=60, op="late rival")
    check(hk)


def test_refusals_in_the_journal_lose_the_key_and_do_not_write_it_anew(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"
    with holdkit.connect(f"sqlite:///{path}", audit_refusals=True) as hk:
        taken(hk)
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold(*KEY, ttl=60, op="before")
        hk.admin.erase("claim", NAME, reason="request 1")
        check(hk)
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold(*KEY, ttl=60, op="after")
        assert hk.journal.list()[-1].action == "command.refused"
        check(hk)
    for file in tmp_path.iterdir():
        for word in (PLAIN, NAME, KEY[1]):
            assert word.encode() not in file.read_bytes(), file.name


@pytest.mark.parametrize("by", ["entity", "account"])
def test_attempts_that_were_for_nobody_go_with_the_key(hk: holdkit.Kernel, by: Any) -> None:
    hk.create_pool("show", total=9)
    first = hk.claims.hold(*KEY, ttl=60, actor="user:annabel", reason="Annabel asked", metadata={"for": "Annabel"})
    hk.release(first, reason="Annabel went")
    theirs = hk.claims.hold(*KEY, ttl=60, actor="user:9", reason="Bea asked", metadata={"for": "Bea"})
    theirs = hk.confirm(theirs, entity="user:9")
    hk.claims.free(*KEY, reason="Bea left")
    named = {"entity": {"entity": "user:7"}, "account": {"account": "customer:7"}}[by]
    hk.hold([holdkit.claim(*KEY), ("show", 1)], ttl=60, metadata={"for": "Annabel"}, **named)  # type: ignore[arg-type]
    erased = hk.admin.erase(by, named[by], reason="request 1")
    assert erased.holds >= 2
    check(hk)
    assert "nnabel" not in text_of(hk)
    assert text_of(hk).count("Bea asked") >= 1, "what was for somebody else stays"
    assert not hk.admin.erase("claim", NAME, reason="request 1").in_use


def test_refused_attempts_go_with_the_key_also_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"
    asked: Any = {"actor": "user:annabel", "reason": "Annabel asked"}
    with holdkit.connect(f"sqlite:///{path}", audit_refusals=True) as hk:
        taken(hk)
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold(*KEY, ttl=60, **asked)
        hk.admin.erase("entity", "user:7", reason="request 1")
        assert "nnabel" not in text_of(hk)
        with pytest.raises(holdkit.AlreadyClaimed):
            hk.claims.hold(*KEY, ttl=60, **asked)
        assert "nnabel" in text_of(hk)
        assert hk.admin.erase("claim", NAME, reason="request 2").found
        assert hk.claims.is_taken(*KEY)
        check(hk)
    assert b"nnabel" not in path.read_bytes()


@pytest.mark.parametrize("erasable", ["sqlite", "postgres", "apart"], indirect=True)  # elsewhere it is one moment
@pytest.mark.parametrize("used", [True, False])
def test_an_account_that_was_erased_by_half_loses_its_claims_too(
    hk: holdkit.Kernel, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hk.create_pool("show", total=9)
    hold = hk.hold([holdkit.claim(*KEY), ("show", 1)], ttl=60, account="customer:7", metadata={"for": "Ann"})
    if not used:
        hk.release(hold)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RenameClaim, "run", killed)
        with pytest.raises(KeyboardInterrupt):
            hk.admin.erase("account", "customer:7", reason="request 1")
    assert PLAIN in text_of(hk)
    assert hk.admin.verify().ok
    assert hk.admin.erase("account", "customer:7", reason="request 1").resumed
    check(hk)
    assert hk.claims.is_taken(*KEY) == used


@pytest.mark.parametrize(("by", "value"), [("claim", NAME), ("entity", "user:7")])
def test_recorded_answers_are_erased_before_their_keys_are_lost(
    by: Any, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, passes, erase = tmp_path / "holds.db", list[str](), EraseJob._erase_operations

    def killed(job: EraseJob) -> None:
        passes.append("begun")
        if len(passes) == 2:
            raise KeyboardInterrupt
        erase(job)

    with holdkit.connect(f"sqlite:///{path}") as hk:
        hk.release(hk.claims.hold(*KEY, ttl=60, metadata={"for": "Annabel"}), op="went")
        hk.confirm(hk.claims.hold(*KEY, ttl=60, metadata={"for": "Annabel"}), op="pay", entity="user:7")
        monkeypatch.setattr(EraseJob, "_erase_operations", killed)
        with pytest.raises(KeyboardInterrupt):
            hk.admin.erase(by, value, reason="request 1")
        assert hk.admin.erase(by, value, reason="request 1").resumed
        check(hk)
    assert b"nnabel" not in path.read_bytes()


def test_a_process_that_was_open_before_the_erasure_finds_it_taken(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk, holdkit.connect(url) as other:
        taken(hk)
        assert other.claims.is_taken(*KEY)
        hk.admin.erase("entity", "user:7", reason="request 1")
        assert other.claims.is_taken(*KEY)
        with pytest.raises(holdkit.AlreadyClaimed):
            other.claims.hold(*KEY, ttl=60)


def test_another_tenant_has_its_own_key(hk: holdkit.Kernel) -> None:
    taken(hk)
    hk.admin.erase("claim", NAME, reason="request 1")
    acme = hk.tenant("acme")
    assert not acme.claims.is_taken(*KEY)
    assert acme.claims.hold(*KEY, ttl=60).legs[0].pool.endswith(PLAIN)


def test_there_is_nothing_to_repair(hk: holdkit.Kernel) -> None:
    taken(hk)
    hk.release(hk.claims.hold("email", "other", ttl=60))
    hk.admin.erase("claim", NAME, reason="request 1")
    hk.admin.erase("claim", "email:other", reason="request 1")
    repairs = (
        hk._executor.engine.capabilities.repair is not None
    )  # others fold their rows from the journal, or are distributed
    assert not repairs or hk.admin.repair(dry_run=True).ok
    assert hk.claims.is_taken(*KEY)


def test_in_another_database_it_is_erased_and_not_recognised(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.create_pool("show", total=10, per_account=4)
        hk.hold("show", 3, ttl=600, account="customer:7")
        taken(hk)
        hk.admin.erase("claim", NAME, reason="request 1")
        stub = hk.admin.erase("account", "customer:7", reason="request 1").stub
        lines = list(export(hk._executor.engine))
        secret = hk._executor.engine.capabilities.erasure.secret.hex()  # type: ignore[union-attr]
    assert [line for line in lines if secret in str(line)] == [], "whoever has an export cannot try names"
    url = f"sqlite:///{tmp_path}/other.db"
    import_journal(url, Import(lines))
    with holdkit.connect(url) as other:
        assert other.admin.verify().ok
        assert [use.used for use in other.accounts.usage(stub)] == [3]
        assert other.accounts.usage("customer:7") == []
        assert not other.claims.is_taken(*KEY)
        assert other.claims.hold(*KEY, ttl=60).legs[0].pool.endswith(PLAIN)
        other.hold("show", 4, ttl=600, account="customer:7")
        assert other.admin.erase("account", "customer:7", reason="request 2").stub.split("-")[0] != stub


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_an_erasure_between_two_claims_lets_only_one_pass(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db" if engine == "sqlite" else request.getfixturevalue("migrated")(lanes=4)
    stop = threading.Event()
    rounds = 4

    def rival() -> list[str]:
        """Claims every key, again and again: what it gets was free."""
        mine = []
        with holdkit.connect(url) as hk:
            while not stop.is_set():
                for n in range(rounds):
                    with suppress(holdkit.AlreadyClaimed):
                        mine.append(hk.claims.hold("name", f"ann{n}", ttl=60).id)
        return mine

    with holdkit.connect(url) as hk, ThreadPoolExecutor(2) as rivals:
        for n in range(rounds):
            hk.confirm(hk.claims.hold("name", f"ann{n}", ttl=60), entity="user:7")
        both = [rivals.submit(rival) for _ in range(2)]
        try:
            for n in range(rounds):
                hk.admin.erase("claim", f"name:ann{n}", reason="request 1")
        finally:
            stop.set()
        assert [one.result(60) for one in both] == [[], []]
        assert hk.admin.verify().ok
