"""`seal` and `verify --seals` on the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdkit
from holdkit.cli.documents import SealDocument
from holdkit.cli.output import FOUND, USAGE
from holdkit.wire.system import VerifyAnswer
from tests.support.command_line import run, told


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_URL", place)
    with holdkit.connect(place) as hk:
        hk.create_pool("a", total=9, actor="user:ann")
        hk.hold("a", 2, ttl=600)
    return place


def test_a_journal_is_sealed_checked_and_changed(url: str, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.jsonl"
    assert told(SealDocument, "admin", "seal", "--after", "1h").sealed == 0
    assert told(SealDocument, "admin", "seal", "--anchor", anchor).sealed == 1
    assert run("admin", "seal", "--anchor", anchor).out == "0 runs sealed\n"
    clean = run("admin", "verify", "--seals", "--anchor", anchor)
    assert clean.out == "every row matches the journal, and every sealed run its seal\n"
    with closing(sqlite3.connect(url[10:])) as db, db:
        db.execute("delete from holdkit_seals")
    assert run("admin", "verify", "--seals").out == "every row matches the journal; nothing is sealed\n"
    assert run("admin", "verify").out == "every row matches the journal\n"
    cut = told(VerifyAnswer, "admin", "verify", "--seals", "--anchor", anchor, code=FOUND)
    assert [(one.key, one.field) for one in cut.found] == [("0/-2", "anchor")]
    run("admin", "verify", "--anchor", anchor, code=USAGE)
