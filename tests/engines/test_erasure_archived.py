"""Erasure where a part of the journal is archived: files, baseline, journal and rows lose the person together, at every moment they agree,
and no byte of what was erased is left anywhere."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from holdkit.core.archived import FindArchived, ReadRewritten
from holdkit.core.codec import decode_entry, encode_entry
from holdkit.core.entries import Action
from holdkit.core.erasure import Erased
from holdkit.core.personal import fields, split
from holdkit.core.seals import Seal, decode_seal
from holdkit.engines.archive_files import ArchiveDirectory, ArchivedSeal, read_archive_file
from holdkit.errors import CursorLost, EngineError, Refused
from holdkit.kernel import archive as kernel_archive
from holdkit.kernel.backup import back_up, restore
from holdkit.kernel.export import export
from holdkit.kernel.import_ import Import, import_journal
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock

DAY = 86_400
PERSON = 'user:"Zoë"/777'
ACCOUNT = "customer:777777"
MAIL = "zoe-777777@example.org"
NAME = "Zoë Zwölfer"
ERASED = (PERSON, ACCOUNT, MAIL, NAME)


def spellings(value: str) -> set[bytes]:
    """A value as it may be written: as text, in JSON, in a JSON document inside of JSON, with and without ASCII escapes."""
    found = {value}
    for _ in range(2):
        found |= {json.dumps(one, ensure_ascii=ascii_only)[1:-1] for one in found for ascii_only in (True, False)}
    return {one.encode() for one in found}


class Life:
    """A kernel with a clock and an archive, in which a person and others live."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self.to = url, folder, folder / "archive"
        self.clock = FakeClock(1_700_000_000_000_000)
        self.hk = holdkit.connect(url, clock=self.clock)
        self.open: list[tuple[holdkit.Kernel, Any]] = []

    def pools(self) -> None:
        for kernel in (self.hk, self.hk.tenant("acme")):
            kernel.create_pool("show", 10_000, exist_ok=True, per_account=50)
            kernel.create_pool("plain", 10_000, exist_ok=True)

    def days(self, days: int, seed: int) -> None:
        """Some use on each day, a third of it by the person, some of it by the same names of another tenant."""
        choose, hk = random.Random(seed), self.hk
        self.pools()
        for day in range(days):
            for at in range(choose.randint(1, 3)):
                kernel = choose.choice((hk, hk, hk.tenant("acme")))
                mine = choose.random() < 0.5
                told = {
                    "actor": PERSON if mine else "user:clerk",
                    "metadata": {"name": NAME if mine else "Bea"},
                    "account": ACCOUNT if mine else "customer:9",
                    "entity": choose.choice((PERSON, None)) if mine else "user:9",
                }
                with suppress(Refused):
                    op = choose.choice((f"op-{seed}-{day}-{at}", None))
                    placed = kernel.hold(choose.choice(("show", "plain")), 1, ttl="20d", op=op, **told)  # type: ignore[arg-type]
                    self.open.append((kernel, placed))
            for _ in range(min(choose.randint(0, 2), len(self.open))):
                kernel, hold = self.open.pop(choose.randrange(len(self.open)))
                with suppress(Refused):
                    change = choose.choice((self._confirm, self._release, self._extend))
                    change(kernel, hold)
            with suppress(Refused):
                key = ("mail", choose.choice((MAIL, f"b{day}@example.org")))
                claim = hk.claims.hold(*key, ttl="1h", actor="user:9")
                if choose.random() < 0.5:
                    hk.confirm(claim, entity=PERSON)
                    if choose.random() < 0.5:
                        hk.claims.free(*key, reason="left")
            self.clock.advance(choose.randint(1, 3) * DAY)
            hk.sweep(1_000)

    def _confirm(self, kernel: holdkit.Kernel, hold: Any) -> None:
        kernel.confirm(hold, entity=PERSON if hold.account == ACCOUNT else "user:9")

    def _release(self, kernel: holdkit.Kernel, hold: Any) -> None:
        who = NAME if hold.account == ACCOUNT else "Bea"
        kernel.release(hold, reason=f"{who} went", actor="user:clerk")

    def _extend(self, kernel: holdkit.Kernel, hold: Any) -> None:
        self.open.append((kernel, kernel.extend(hold, by="1d")))

    def archive(self, before: str = "15d") -> int:
        return self.hk.admin.archive(before=before, to=self.to).entries

    def erase(self, by: Any, value: str, **more: Any) -> Erased:
        more.setdefault("reason", "request 1")
        return self.hk.admin.erase(by, value, archive=self.to, **more)

    def erase_all(self) -> None:
        self.erase("entity", PERSON)
        self.erase("account", ACCOUNT)
        self.erase("claim", f"mail:{MAIL}")
        self.erase("actor", PERSON)

    def check(self) -> None:
        """Everything agrees: rows, journal, baseline, files, seals; and the whole history can be imported elsewhere."""
        hk = self.hk
        assert hk.admin.verify().differences == ()
        assert hk.admin.verify(archive=self.to).differences == ()
        assert list(verify_seals(hk._executor.engine)) == []
        assert list(verify_seals(hk._executor.engine, archive=self.to)) == []

    def check_export(self) -> None:
        engine = self.hk._executor.engine
        lines = list(export(engine, archive=kernel_archive.archived_entries(engine, self.to)))
        url = f"sqlite:///{self.folder.parent}/imported.db"
        import_journal(url, Import(lines))
        with holdkit.connect(url, clock=self.clock) as other:
            assert other.admin.verify().differences == ()
        for path in self.folder.parent.glob("imported.db*"):
            path.unlink()

    def entries(self) -> list[tuple[int, int, str]]:
        """Every entry ever, from the files and from the journal."""
        files, lanes = ArchiveDirectory(self.to), self.hk._executor.engine.read(FindArchived())
        found = [(row.lane, row.seq, row.text) for one in lanes for row in files.rows(one.lane, 0, one.through)]
        kept = self.hk.journal.follow(wait=False, tenant=holdkit.journal.ALL)
        found += [
            (one.raw.row.lane, one.raw.row.seq, one.raw.row.text)
            for one in kept
            if one.action != Action.JOURNAL_BASELINE
        ]
        return sorted(found)

    def public(self) -> list[tuple[int, int, str]]:
        """The same without personal fields, and without the entries that erasures add."""
        added = (Action.JOURNAL_ERASED, Action.LIMITS_CHANGED)
        entries = [(lane, seq, decode_entry(text)) for lane, seq, text in self.entries()]
        return [
            (lane, seq, encode_entry(split(one)[0]))
            for lane, seq, one in entries
            if one.action not in added and (one.action, one.reason) != (Action.POOL_REMOVED, "request 1")
        ]

    def others(self) -> list[str]:
        """What is told of another tenant, in every word."""
        return [text for *_, text in self.entries() if decode_entry(text).tenant == "acme"]

    def counters(self) -> list[Any]:
        return [(pool.id, pool.held, pool.consumed, pool.available) for pool in self.hk.pools(limit=1_000)]

    def stored(self) -> dict[str, bytes]:
        """Every byte that is stored: files, as they are and as they are compressed; of a server, every row."""
        found = {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }
        found |= {name + "!": gzip.decompress(data) for name, data in found.items() if name.endswith(".gz")}
        if self.url.startswith("postgres"):
            with psycopg.connect(self.url) as db:
                names = "select table_name from information_schema.tables where table_schema = 'holdkit' and table_type = 'BASE TABLE'"
                for (name,) in db.execute(names).fetchall():
                    rows = db.execute(f"select t::text from holdkit.{name} t").fetchall()
                    found[name] = "\n".join(row[0] for row in rows).replace('""', '"').encode()
        return found

    def left(self, values: tuple[str, ...] = ERASED) -> list[tuple[str, bytes]]:
        """Where one of these is found, in any spelling. (Another tenant's are written with other bytes.)"""
        words = {word for value in values for word in spellings(value)}
        return [(name, word) for name, data in self.stored().items() for word in words if word in data]


@pytest.fixture(params=["sqlite", "postgres"])
def life(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    monkeypatch.setattr(kernel_archive, "MAX_ENTRIES", 60)
    folder = tmp_path / "data"
    folder.mkdir()
    url = f"{request.param}:///{folder}/holds"
    if request.param == "postgres":
        url = request.getfixturevalue("migrated")(lanes=2)
    made = Life(url, folder)
    yield made
    made.hk.close()


@pytest.mark.parametrize("seed", range(2))
def test_after_random_lives_nothing_is_left_and_everything_agrees(
    life: Life, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life.hk, "tenant", lambda _: life.hk)  # one tenant: every byte can be searched
    sealer = Sealer(life.hk._executor.engine)
    for part in range(5):
        life.days(6, 10 * seed + part)
        if seed % 2:
            sealer.step(all_now=True)
        life.archive()
    assert life.hk._executor.engine.read(FindArchived())
    assert {value for value in ERASED if life.left((value,))} == {*ERASED}
    public, counters = life.public(), life.counters()
    life.erase_all()
    life.check()
    life.check_export()
    assert life.left() == []
    monkeypatch.setattr(life.hk, "tenant", lambda _: life.hk)
    assert life.public() == public, "nothing but personal fields has changed"
    assert life.counters() == counters
    life.open.clear()  # whoever writes a name to an erased hold has to erase that by hand
    life.days(8, 10 * seed + 9)
    assert life.archive() > 0
    life.check()
    life.erase_all()
    life.check()
    assert life.left() == []


def test_a_second_tenant_is_untouched(life: Life) -> None:
    life.days(15, 3)
    assert life.archive() > 0
    before = life.others()
    assert any(ACCOUNT in text for text in before)
    life.erase_all()
    assert life.others() == before
    life.check()
    assert not life.hk.tenant("acme").admin.erase("entity", "user:nobody", archive=life.to, reason="request 2").found


def test_without_the_files_nothing_is_erased_and_the_directory_is_named(life: Life) -> None:
    life.days(12, 1)
    assert life.archive() > 0
    before = life.stored()
    with pytest.raises(holdkit.InvalidRequest, match="give that directory") as refused:
        life.hk.admin.erase("entity", PERSON, reason="request 1")
    assert refused.value.code == "erasure_archived"
    assert str(life.to) in str(refused.value)
    with pytest.raises(EngineError, match="cannot read the archive"):
        life.hk.admin.erase("entity", PERSON, reason="request 1", archive=life.folder / "elsewhere")
    assert not (life.folder / "elsewhere").exists()
    assert life.stored().keys() == before.keys()
    assert life.erase("entity", PERSON).found


@pytest.mark.parametrize("what", ["missing", "damaged", "of another database"])
def test_files_that_are_not_right_are_named_before_anything_is_changed(life: Life, what: str, tmp_path: Path) -> None:
    life.days(14, 2)
    assert life.archive() > 0
    lane = life.hk._executor.engine.read(FindArchived())[0].lane
    file = ArchiveDirectory(life.to).files(lane)[-1]
    whole = file.path.read_bytes()
    if what == "missing":
        file.path.unlink()
    elif what == "damaged":
        file.path.write_bytes(whole[: len(whole) // 2])
    else:
        other = Life(f"sqlite:///{tmp_path}/other.db", tmp_path)
        other.days(30, 7)
        other.archive()
        other.hk.close()
        life.to = other.to
    with pytest.raises(EngineError) as refused:
        life.erase("entity", PERSON)
    named = str(life.to) if what != "damaged" else file.path.name
    assert named in str(refused.value)
    assert life.hk.holds(entity=PERSON, limit=1), "nothing was erased"
    assert not life.hk._executor.engine.capabilities.erasure.unfinished()  # type: ignore[union-attr]


@pytest.mark.parametrize("by", ["entity", "account", "claim", "actor"])
def test_files_that_were_erased_after_the_restored_copy_are_refused(by: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    life = Life(f"sqlite:///{folder}/holds", folder)
    life.days(16, 6)
    assert life.archive() > 0
    life.hk.close()
    back_up(life.url, tmp_path / "copy", lambda *_: None)
    shutil.copytree(life.to, tmp_path / "files")
    with holdkit.connect(life.url, clock=life.clock) as life.hk:
        life.erase_all()
    restore(tmp_path / "copy", life.url, lambda *_: None, force=True)
    value = {"entity": PERSON, "account": ACCOUNT, "claim": f"mail:{MAIL}", "actor": PERSON}[by]
    with holdkit.connect(life.url, clock=life.clock) as life.hk:
        for dry_run in (True, False):
            with pytest.raises(EngineError, match="Put back the files of that time"):
                life.erase(by, value, dry_run=dry_run)
        assert life.hk.admin.verify().differences == (), "nothing was erased"
        assert not life.hk._executor.engine.capabilities.erasure.unfinished()  # type: ignore[union-attr]
        shutil.rmtree(life.to)
        shutil.copytree(tmp_path / "files", life.to)
        life.check()
        assert life.erase(by, value).found
        life.erase_all()
        life.check()


def test_r9_files_of_before_an_erasure_are_named_when_they_are_played_back(life: Life, tmp_path: Path) -> None:
    life.days(16, 6)
    assert life.archive() > 0
    shutil.copytree(life.to, tmp_path / "files")
    assert life.erase("entity", PERSON).found
    life.check()
    shutil.rmtree(life.to)
    shutil.copytree(tmp_path / "files", life.to)
    assert life.hk.admin.verify(archive=life.to).differences
    with pytest.raises(EngineError, match="Put back the files"):
        life.erase("account", ACCOUNT)


@pytest.mark.parametrize("archived", [True, False])
def test_files_of_a_history_that_was_lost_by_a_restore_are_refused(archived: bool, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    life = Life(f"sqlite:///{folder}/holds", folder)
    life.days(8, 6)
    if archived:
        assert life.archive("5d") > 0
    life.hk.close()
    back_up(life.url, tmp_path / "copy", lambda *_: None)
    known = {*life.to.glob("*")}
    with holdkit.connect(life.url, clock=life.clock) as life.hk:
        life.open.clear()
        life.days(12, 7)
        assert life.archive() > 0
    restore(tmp_path / "copy", life.url, lambda *_: None, force=True)
    (lost,) = {*life.to.glob("*")} - known
    with holdkit.connect(life.url, clock=life.clock) as life.hk:
        life.open.clear()
        life.days(14, 8)
        written = lost.read_bytes()
        with pytest.raises(EngineError, match=f"{lost.name} has another entry .* Move it away"):
            life.erase("entity", PERSON)
        assert (lost.read_bytes(), life.hk.admin.verify().differences) == (written, ()), "nothing was erased"
        assert not life.hk._executor.engine.capabilities.erasure.unfinished()  # type: ignore[union-attr]
        lost.unlink()
        assert life.archive() > 0
        life.erase_all()
        life.check()


def test_a_dry_run_counts_what_the_files_have_and_changes_nothing(life: Life) -> None:
    life.days(14, 4)
    assert life.archive() > 0
    before = life.stored()
    counted = life.erase("entity", PERSON, dry_run=True)
    assert life.stored() == before or life.url.startswith("sqlite"), "an SQLite file may be checkpointed"
    erased = life.erase("entity", PERSON)
    assert (counted.holds, counted.entries, counted.pools) == (erased.holds, erased.entries, erased.pools)
    assert erased.entries > 0
    assert not life.erase("entity", PERSON).found


def test_an_archive_run_that_was_killed_goes_on_behind_an_erasure(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes beyond what is archived has the person too, and must stay equal to the journal."""
    life.days(14, 5)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kernel_archive._Run, "_compare", killed)
        with pytest.raises((KeyboardInterrupt, holdkit.HoldkitError)):
            life.archive()
    assert ArchiveDirectory(life.to).files()
    life.erase_all()
    assert life.archive() > 0
    life.check()
    assert not [name for name, _ in life.left((MAIL,))]


def test_followers_go_on_and_the_archive_is_read_on_from_any_cursor(life: Life) -> None:
    life.days(14, 6)
    assert life.archive() > 0
    archived = [entry.cursor for entry in holdkit.journal.JournalArchive(life.to).entries()]
    kept = [
        entry.cursor for entry in life.hk.journal.follow(after=archived[-1], wait=False, tenant=holdkit.journal.ALL)
    ]
    life.erase_all()
    for position, cursor in enumerate(archived, 1):
        assert len(list(holdkit.journal.JournalArchive(life.to).entries(after=cursor))) == len(archived) - position
    for position, cursor in enumerate(kept, 1):
        assert (
            len(list(life.hk.journal.follow(after=cursor, wait=False, tenant=holdkit.journal.ALL)))
            >= len(kept) - position
        )


def test_no_salt_is_left_with_which_a_value_could_be_tried(life: Life) -> None:
    for part in range(3):
        life.days(7, 60 + part)
        assert Sealer(life.hk._executor.engine).step(all_now=True)
    assert life.archive() > 0
    before = {(lane, seq): fields(decode_entry(text)) for lane, seq, text in life.entries()}
    life.erase_all()
    after = {(lane, seq): fields(decode_entry(text)) for lane, seq, text in life.entries()}
    gone = [(*at, path) for at, values in before.items() for path, value in values.items() if after[at][path] != value]
    files = ArchiveDirectory(life.to).files()
    lines = [line for file in files for line in read_archive_file(file)]
    in_files = [decode_seal(line.seal) for line in lines if isinstance(line, ArchivedSeal)]
    store = life.hk._executor.engine.capabilities.seals
    assert store is not None
    stored = [seal for lane in range(life.hk._executor.engine.lanes) for seal in store.read_seals(lane, 0, 1_000)]
    for seals in (in_files, stored):
        covered = [(seal, seq, path) for seal in seals for lane, seq, path in gone if _covers(seal, lane, seq)]
        assert len(covered) > 10
        for seal, seq, path in covered:
            assert seal.salts.run is None
            assert seq not in seal.salts.entries
            assert path not in seal.salts.fields[seq]


def _covers(seal: Seal, lane: int, seq: int) -> bool:
    return seal.lane == lane and seal.first <= seq <= seal.last


def test_a_cursor_between_the_rows_of_the_baseline_is_lost_only_if_they_are_in_another_order(life: Life) -> None:
    life.days(14, 6)
    assert life.archive() > 0
    whole = len(list(life.hk.journal.follow(wait=False)))
    cursor = life.hk.journal.list(limit=3)[-1].cursor
    assert life.erase("actor", PERSON).found
    assert len(list(life.hk.journal.follow(after=cursor, wait=False))) == whole - 3 + 1
    assert life.erase("account", ACCOUNT).found
    with pytest.raises(CursorLost):
        list(life.hk.journal.follow(after=cursor, wait=False))


def test_between_all_steps_everything_agrees_and_the_same_call_does_the_rest(life: Life) -> None:
    for part in range(3):
        life.days(7, 80 + part)
        assert Sealer(life.hk._executor.engine).step(all_now=True)
    assert life.archive() > 0
    steps = pending = 0
    for by, value in (("entity", PERSON), ("account", ACCOUNT), ("claim", f"mail:{MAIL}")):
        stop = 1
        while True:
            seen = 0

            def progress(_done: int, _total: int, stop: int = stop) -> None:
                nonlocal seen
                seen += 1
                if seen == stop:
                    raise KeyboardInterrupt

            try:
                life.erase(by, value, progress=progress)
                break
            except KeyboardInterrupt:
                steps += 1
                texts = [
                    life.hk._executor.engine.read(ReadRewritten(lane)) for lane in range(life.hk._executor.engine.lanes)
                ]
                pending += any(texts)
                life.check()
                if any(texts):
                    life.check_export()
            stop += 3
    assert steps > 6
    assert pending > 0, "it was stopped with files that did not have what was rewritten"
    life.erase("actor", PERSON)
    life.check()
    assert life.left((MAIL,)) == []
