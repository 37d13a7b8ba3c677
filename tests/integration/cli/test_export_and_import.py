"""Export and import: the same pools, holds, records and fences elsewhere, from any engine to any other; or nothing at all."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.cli.documents import TransferDocument
from holdkit.testing import FakeClock
from holdkit.testing.postgres import ServerAddress
from tests.support.command_line import run, told

Place = Callable[[str], str]


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """A new, empty place of a kind."""
    numbers = count(1)
    made: list[tuple[ServerAddress, str]] = []

    def make(kind: str) -> str:
        number = next(numbers)
        if not kind.startswith("postgres"):
            return f"{kind}:///{tmp_path}/{kind}{number}"
        server: ServerAddress = request.getfixturevalue("postgres_server")
        made.append((server, f"carry_{number}_{id(made)}"))
        url = server.create_database(made[-1][1], "template0")
        holdkit.migrate(url, lanes=int(kind.removeprefix("postgres") or 4))
        return url

    yield make
    for server, name in made:
        server.drop_database(name)


def furnish(url: str) -> None:
    """Something of everything."""
    with holdkit.connect(url) as hk:
        for number in range(6):
            hk.create_pool(f"p{number}", total=10)
        hk.confirm(hk.hold({"p0": 1, "p1": 2, "p2": 3}, ttl=60), quantity={"p0": 1, "p1": 1}, keep_rest=True)
        hk.confirm(hk.hold("p3", 2, ttl=60, op="op"), entity="order:1")
        hk.return_units(hk.consume({"p4": 3, "p5": 1}, token="me"), quantity={"p4": 1})
        hk.release(hk.hold("p0", 4, ttl=60), reason="changed")
        hk.hold("p5", 9, ttl=0.000001)
        hk.hold("p5", 1, ttl=60, id="7" * 32, token="mine", metadata={"é": [1, "\U0001f642"]})
        hk.admin.resize_pool("p1", 20)
        for _ in range(3):  # pools that come and go: their fences live on
            hk.release(hk.hold([holdkit.Leg("on demand", 1, create_with_total=1)], ttl=60))
            hk.sweep()
        acme = hk.tenant("acme")
        acme.create_pool("p0", total=3)
        acme.hold("p0", 2, ttl=60)
        hk.admin.records.put("note", "a", '"1"')
        hk.admin.records.put("note", "a", '"2"')
        hk.admin.records.put("note", "gone", '"1"')
        hk.admin.records.put("note", "gone", None)


def outlive(url: str) -> None:
    """Units that outlive their hold, limits that change and change back, pools that end."""
    with holdkit.connect(url) as hk:
        hk.create_pool("sold", total=9)
        hk.consume("sold", 4)
        hk.admin.change_limits(retention=0, retention_consumed=0, max_holds=500, reason="nothing is kept")
        hk.sweep()
        hk.admin.free("sold", 1, reason="refund")
        hk.admin.change_limits(retention="90d", retention_consumed="500d", max_holds=None)
        for pool in ("shut", "ended", "opened"):
            hk.create_pool(pool, total=2)
            hk.admin.archive_pool(pool)
        hk.admin.unarchive_pool("opened")
        hk.admin.remove_pool("ended", reason="over")
        assert (hk.pool("sold").consumed, hk.pool("sold").raw.loose) == (3, 3)


def contents(url: str) -> Any:
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        found: list[Any] = []
        for one in (hk, hk.tenant("acme")):
            pools = [pool.raw for pool in one.pools(archived=True)]
            found.append((pools, [hold.raw for hold in one.holds()], one.admin.records.list("note")))
        return found


OUTLIVED = {"hold.retired", "pool.returned", "pool.archived", "pool.unarchived", "pool.removed", "limits.changed"}


def tale(url: str) -> Any:
    """What happened, and under which limits. (Where a hold's pools lie in several lanes, parts of its entries do too.)"""
    with holdkit.connect(url) as hk:
        entries = [entry for entry in hk.journal.follow(wait=False, tenant=holdkit.journal.ALL) if not entry.raw.part]
        assert {entry.action for entry in entries} >= OUTLIVED
        told = sorted((entry.action, entry.subject, repr((entry.before, entry.after))) for entry in entries)
        limits = hk.admin.limits()
        return told, (limits.retention, limits.retention_consumed, limits.max_holds, limits.version)


@pytest.mark.parametrize(
    "path",
    ["sqlite sqlite", "sqlite postgres", "postgres sqlite", "postgres postgres16", "postgres16 postgres1 sqlite"],
)
def test_from_any_engine_to_any_other(place: Place, tmp_path: Path, path: str) -> None:
    first, *others = path.split()
    url = place(first)
    outlive(url)
    furnish(url)
    expected, happened = contents(url), tale(url)
    for number, kind in enumerate(others):
        file, target = tmp_path / f"{number}.jsonl", place(kind)
        entries = told(TransferDocument, "admin", "export", file, "--url", url).entries
        assert file.stat().st_mode & 0o777 == 0o600
        assert told(TransferDocument, "admin", "import", file, "--url", target).entries == entries
        assert contents(target) == expected
        assert tale(target) == happened
        url = target
    with holdkit.connect(url) as hk:  # and life goes on there
        assert hk.confirm(holdkit.ticket("7" * 32, "mine")).state == "confirmed"
        with pytest.raises(holdkit.errors.PoolArchived):
            hk.hold("shut", ttl=60)
        with pytest.raises(holdkit.errors.QuantityExceedsConsumed):
            hk.admin.free("sold", 4, reason="more than is loose")
        assert hk.admin.free("sold", 3, reason="refund").available == 9
        assert hk.admin.change_limits(retention="91d", if_version=2).version == 3
        last = max(effect.pool.raw.fence for entry in hk.journal.follow(wait=False) for effect in entry.pools)
        assert hk.hold([holdkit.Leg("on demand", 1, create_with_total=1)], ttl=60).fence > 0
        assert hk.hold("p5", 1, ttl=60).fence <= last + 2
        assert hk.admin.verify().ok


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_due_legs_are_due_there_too(place: Place, tmp_path: Path, kind: str) -> None:
    """Also one whose pool was touched by a sweep that went no further."""
    url, target = place("sqlite"), place(kind)
    clock = FakeClock(time.time_ns() // 1000 - 100_000_000)
    with holdkit.connect(url, clock=clock) as hk:
        hk.create_pool("a", total=5)
        hk.hold("a", 2, ttl=10)
        hk.hold("a", 3, ttl=10)
        clock.advance(50)
        assert hk.sweep(limit=1).more
    run("admin", "export", tmp_path / "x", "--url", url)
    run("admin", "import", tmp_path / "x", "--url", target)
    with holdkit.connect(target) as hk:
        assert hk.hold("a", 5, ttl=60).state == "held"
        assert hk.admin.verify().ok


def test_through_a_pipe(place: Place) -> None:
    url, target = place("sqlite"), place("sqlite")
    furnish(url)
    python = f"{sys.executable} -m holdkit"
    piped = f"{python} admin export - --url {url} | {python} admin import - --url {target} --json"
    done = subprocess.run(piped, shell=True, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert contents(target) == contents(url)


def test_cursors_of_the_old_journal_are_lost_or_right(place: Place, tmp_path: Path) -> None:
    url, target = place("sqlite"), place("postgres")
    furnish(url)
    with holdkit.connect(url) as hk:
        cursor = hk.journal.cursor()
    run("admin", "export", tmp_path / "x", "--url", url)
    run("admin", "import", tmp_path / "x", "--url", target)
    with holdkit.connect(target) as hk, pytest.raises(holdkit.errors.CursorLost):
        hk.journal.list(after=cursor)


@pytest.fixture
def lines(place: Place, tmp_path: Path) -> list[bytes]:
    url = place("sqlite")
    furnish(url)
    run("admin", "export", tmp_path / "whole.jsonl", "--url", url)
    return (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)


def _edited(line: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(line), **changes}, separators=(",", ":")).encode() + b"\n"


def _limits(lines: list[bytes], retention: int) -> dict[str, Any]:
    limits: dict[str, Any] = json.loads(lines[0])["limits"]
    return limits | {"retention": retention}


BROKEN: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "empty": (lambda lines: [], "export_cut"),
    "nonsense": (lambda lines: [b"\xff\x00 nonsense\n"], "line_malformed"),
    "another document": (lambda lines: [b"{}\n"], "line_malformed"),
    "cut short": (lambda lines: lines[:-1], "export_cut"),
    "cut in a line": (lambda lines: [*lines[:5], lines[5][:20]], "line_malformed"),
    "a line lost": (lambda lines: lines[:5] + lines[6:], "entry_out_of_order"),
    "a line twice": (lambda lines: [*lines[:5], lines[4], *lines[5:]], "entry_out_of_order"),
    "two lines swapped": (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "entry_out_of_order"),
    "an entry edited": (
        lambda lines: [*lines[:5], lines[5].replace(b'"slot":1', b'"slot":2', 1), *lines[6:]],
        "digest_wrong",
    ),
    "the digest too": (lambda lines: [*lines[:9], _edited(lines[9], digest="0"), *lines[10:]], "digest_wrong"),
    "another number": (lambda lines: [*lines[:9], _edited(lines[9], seq=99), *lines[10:]], "entry_out_of_order"),
    "a huge lane": (lambda lines: [*lines[:9], _edited(lines[9], lane=-1, seq=1), *lines[10:]], "entry_out_of_order"),
    "an unknown field": (lambda lines: [lines[0], _edited(lines[1], more=1), *lines[2:]], "line_malformed"),
    "a newer format": (lambda lines: [_edited(lines[0], format=3), *lines[1:]], "format_unknown"),
    "limits of nobody": (lambda lines: [_edited(lines[0], limits={"x": 1}), *lines[1:]], "header_malformed"),
    "a limit below 0": (
        lambda lines: [_edited(lines[0], limits=_limits(lines, -1)), *lines[1:]],
        "retention_malformed",
    ),
    "a seal of another": (lambda lines: [*lines[:-1], _edited(lines[-1], hash="0" * 32)], "seal_broken"),
    "the header edited": (lambda lines: [_edited(lines[0], lanes=7), *lines[1:]], "seal_broken"),
    "more behind it": (lambda lines: [*lines, b"{}\n"], "line_malformed"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_export_is_refused_whole(place: Place, tmp_path: Path, lines: list[bytes], how: str) -> None:
    spoil, code = BROKEN[how]
    (tmp_path / "broken.jsonl").write_bytes(b"".join(spoil(lines)))
    target, before = place("sqlite"), sorted(tmp_path.iterdir())
    said = json.loads(run("admin", "import", tmp_path / "broken.jsonl", "--url", target, "--json", code=2).err)
    assert said["code"] == code
    assert sorted(tmp_path.iterdir()) == before, "nothing is left behind"


def test_a_broken_export_leaves_a_database_empty(place: Place, tmp_path: Path, lines: list[bytes]) -> None:
    target = place("postgres")
    (tmp_path / "broken.jsonl").write_bytes(b"".join(lines[:-1]))
    run("admin", "import", tmp_path / "broken.jsonl", "--url", target, code=2)
    assert run("journal", "list", "--url", target).out == ""
    run("admin", "import", tmp_path / "whole.jsonl", "--url", target)
    assert "entries imported" not in run("admin", "import", tmp_path / "whole.jsonl", "--url", target, code=2).out


def test_entries_that_do_not_follow_from_one_another(place: Place, tmp_path: Path, lines: list[bytes]) -> None:
    """Sealed by someone who knows how, and still not a journal."""
    import hashlib

    from holdkit.core.codec import digest

    entry = json.loads(lines[7])["entry"]
    entry["effects"][0]["pool"]["held"] += 1
    text = json.dumps(entry, separators=(",", ":"))
    changed = [*lines[:7], _edited(lines[7], entry=entry, digest=digest(text)), *lines[8:-1]]
    seal = _edited(lines[-1], hash=hashlib.blake2b(b"".join(changed), digest_size=16).hexdigest())
    (tmp_path / "forged.jsonl").write_bytes(b"".join([*changed, seal]))
    for kind in ("sqlite", "postgres"):
        said = json.loads(run("admin", "import", tmp_path / "forged.jsonl", "--url", place(kind), "--json", code=2).err)
        assert (said["code"], said["field"]) == ("entry_contradicts", "line 8")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_only_into_what_is_empty(place: Place, tmp_path: Path, lines: list[bytes], kind: str) -> None:
    target = place(kind)
    run("pools", "create", "mine", 1, "--url", target)
    said = json.loads(run("admin", "import", tmp_path / "whole.jsonl", "--url", target, "--json", code=2).err)
    assert said["code"] == "target_not_empty"
    assert contents(target)[0][0][0].id == "mine"


def test_an_application_keeps_its_own_file(place: Place, tmp_path: Path, lines: list[bytes]) -> None:
    import sqlite3

    target = place("sqlite")
    with sqlite3.connect(target[10:]) as connection:
        connection.execute("create table mine (x)")
    connection.close()
    (tmp_path / "broken.jsonl").write_bytes(b"".join(lines[:-1]))
    run("admin", "import", tmp_path / "broken.jsonl", "--url", target, code=2)
    run("admin", "import", tmp_path / "whole.jsonl", "--url", target)
    with sqlite3.connect(target[10:]) as connection:
        assert connection.execute("select count(*) from mine").fetchone() == (0,)
    connection.close()


def test_bad_usage(place: Place, tmp_path: Path) -> None:
    url = place("sqlite")
    furnish(url)
    assert "no file" in run("admin", "import", tmp_path / "nothing", "--url", place("sqlite"), code=2).err
    (tmp_path / "there").write_text("mine")
    assert "--replace" in run("admin", "export", tmp_path / "there", "--url", url, code=2).err
    assert (tmp_path / "there").read_text() == "mine"
    run("admin", "export", tmp_path / "there", "--url", url, "--replace")
    assert "forgets everything" in run("admin", "import", tmp_path / "there", "--url", "memory://", code=2).err
    assert "no database at" in run("admin", "export", "-", "--url", f"sqlite:///{tmp_path}/mistyped", code=2).err


# One tenant


def furnish_tenants(url: str) -> None:
    """Two tenants whose entries alternate; limits that change, holds that are dropped, pools that come and go."""
    with holdkit.connect(url) as hk:
        for n in range(3):
            for name in ("acme", "rival"):
                its = hk.tenant(name)
                its.create_pool(f"p{n}", total=10)
                its.create_pool("gone", total=1)
                its.confirm(its.hold({f"p{n}": 2}, ttl=60), entity="order:1")
                its.hold({f"p{m}": 1 for m in range(n + 1)}, ttl=60, token="mine", metadata={"of": name})
                its.admin.remove_pool("gone")
                its.admin.records.put("note", f"n{n}", '"x"')
        for name in ("acme", "rival"):
            hk.tenant(name).consume("p0", 3)
        hk.admin.change_limits(retention=0, retention_consumed=0, max_holds=500, reason="nothing is kept")
        hk.sweep()
        hk.tenant("acme").admin.free("p0", 1, reason="refund")
        hk.admin.change_limits(retention="90d", retention_consumed="500d", max_holds=None)
        hk.tenant("acme").claims.hold("email", "a@b", ttl=60)


def seen_of(hk: Any) -> Any:
    pools = [*hk.pools(limit=1_000), *hk.pools("~", limit=1_000)]
    return [(one.id, one.total, one.held, one.consumed, one.raw.loose, one.raw.fence) for one in pools], [
        (one.id, str(one.state), one.entity, one.metadata) for one in hk.holds(limit=1_000)
    ]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("sqlite", "sqlite"),
        ("postgres4", "sqlite"),
        ("sqlite", "postgres4"),
        ("postgres4", "postgres1"),
    ],
)
def test_one_tenant_moves_without_the_others(place: Place, tmp_path: Path, source: str, target: str) -> None:
    here, there, file = place(source), place(target), tmp_path / "acme.jsonl"
    furnish_tenants(here)
    moved = told(TransferDocument, "admin", "export", "--url", here, "--tenant", "acme", file)
    assert b"rival" not in file.read_bytes()
    assert run("admin", "import", "--url", there, file).code == 0
    assert run("admin", "verify", "--url", there).code == 0
    with holdkit.connect(here) as old, holdkit.connect(there) as new:
        assert seen_of(new.tenant("acme")) == seen_of(old.tenant("acme"))
        actions = [
            sorted(entry.action for entry in one.tenant("acme").journal.list(limit=10_000) if not entry.raw.part)
            for one in (old, new)
        ]
        assert actions[0] == actions[1]
        assert moved.entries >= len(actions[0]) > 25
        assert new.admin.tenants() == ["acme"]
        its = new.tenant("acme")
        before = its.pool("p1").raw.fence
        assert its.hold("p1", 1, ttl=60).fence > before, "it goes on there"
        assert new.admin.verify().ok


def test_a_tenant_without_entries_exports_an_empty_journal(place: Place, tmp_path: Path) -> None:
    here, there, file = place("sqlite"), place("sqlite"), tmp_path / "nobody.jsonl"
    furnish_tenants(here)
    assert told(TransferDocument, "admin", "export", "--url", here, "--tenant", "nobody", file).entries == 0
    assert run("admin", "import", "--url", there, file).code == 0
