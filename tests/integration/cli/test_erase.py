"""``holdkit admin erase``: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdkit
from holdkit.core import new_names
from holdkit.testing import FakeClock
from tests.support.command_line import run
from tests.support.servers import live_server


def test_erase(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("show", total=9)
        hold = hk.hold("show", 1, ttl=600, entity="user:7", account="customer:7")
    counts = "1 holds, 1 journal entries, 0 pools, 0 records and 0 recorded answers"
    asked = ("admin", "erase", url, "--entity", "user:7")
    assert run(*asked, "--dry-run").out.splitlines()[0] == f"would replace in {counts}"
    assert "say why" in run(*asked, code=2).err
    run("admin", "erase", url, "--reason", "r", code=2)
    run(*asked, "--actor-named", "user:7", "--reason", "r", code=2)
    told = run(*asked, "--reason", "r").out.splitlines()
    assert told[0] == f"replaced in {counts}"
    assert told[2] == "account customer:7 is still named: pools count it; erase it with --account"
    assert run(*asked, "--reason", "r", code=6).out == "nothing names it: nothing was changed\n"
    with holdkit.connect(url) as hk:
        assert hk.get(hold.id).entity != "user:7"


def test_a_record_that_is_in_use_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.admin.records.put("notes", "n", '{"who": "user:7"}')
    told = run("admin", "erase", url, "--entity", "user:7", "--reason", "r").out
    assert "notes/n still tells: it is in use; end or change it, then erase again" in told


def test_an_account_that_was_erased_too_often_is_told_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setattr(new_names, "MOST_STUBS", 1)
    asked = ("admin", "erase", url, "--account", "customer:7", "--reason", "r")
    with holdkit.connect(url) as hk:
        hk.create_pool("show", total=9)
        old = hk.hold("show", 1, ttl=600, account="customer:7")
        run(*asked)
        new = hk.hold("show", 1, ttl=600, account="customer:7")
        hk.release(old)
        said = run(*asked, code=2).err
        assert said.startswith("holdkit: --account: was erased 1 times while it used units, and that is the most")
        assert "Release or return what it has come to use since it was last erased" in said
        hk.release(new)
        run(*asked)


def test_erase_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(database) as hk:
        hk.create_pool("show", total=9)
        hold = hk.hold("show", 1, ttl=600, entity="user:7")
    with live_server(database) as server:
        monkeypatch.setenv("HOLDKIT_KEY", server.admin)
        asked = ("admin", "erase", server.url, "--entity", "user:7")
        assert run(*asked, "--dry-run").out.startswith("would replace in 1 holds")
        assert "say why" in run(*asked, code=2).err
        assert "--tenant" in run(*asked, "--tenant", "acme", "--reason", "r", code=2).err
        assert "start the server with --archive DIR" in run(*asked, "--archive", "away", "--reason", "r", code=2).err
        assert run(*asked, "--reason", "r").out.startswith("replaced in 1 holds")
        assert run(*asked, "--reason", "r", code=6).out == "nothing names it: nothing was changed\n"
    with holdkit.connect(database) as hk:
        assert hk.get(hold.id).entity != "user:7"


def test_erase_what_was_archived(tmp_path: Path) -> None:
    url, to = f"sqlite:///{tmp_path}/holds.db", str(tmp_path / "archive")
    with holdkit.connect(url, clock=FakeClock(1_700_000_000_000_000)) as hk:
        hk.create_pool("show", total=9)
        hk.release(hk.hold("show", 1, ttl=600, entity="user:7"))
        hk.admin.resize_pool("show", 8)
    run("admin", "archive", url, "--before", "1d", "--to", to)
    asked = ("admin", "erase", url, "--entity", "user:7", "--reason", "r")
    assert f"was archived to {to}" in run(*asked, code=2).err
    run(*asked, "--archive", str(tmp_path / "nowhere"), code=5)
    assert run(*asked, "--archive", to).out.startswith("replaced in 1 holds, 2 journal entries")
    run("admin", "verify", url, "--archive", to)
