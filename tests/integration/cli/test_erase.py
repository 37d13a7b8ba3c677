"""``holdkit erase``: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import holdkit
from tests.support.command_line import run


def test_erase(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    with holdkit.connect(url) as hk:
        hk.create_pool("show", total=9)
        hold = hk.hold("show", 1, ttl=600, entity="user:7", account="customer:7")
    counts = "1 holds, 1 journal entries, 0 pools and 0 recorded answers"
    asked = ("erase", url, "--entity", "user:7")
    assert run(*asked, "--dry-run").out.splitlines()[0] == f"would replace in {counts}"
    assert "say why" in run(*asked, code=2).err
    run("erase", url, "--reason", "r", code=2)
    run(*asked, "--actor-named", "user:7", "--reason", "r", code=2)
    told = run(*asked, "--reason", "r").out.splitlines()
    assert told[0] == f"replaced in {counts}"
    assert told[2] == "account customer:7 is still named: pools count it; erase it with --account"
    assert run(*asked, "--reason", "r", code=6).out == "nothing names it: nothing was changed\n"
    with holdkit.connect(url) as hk:
        assert hk.get(hold.id).entity != "user:7"
