"""An erasure, killed by SIGKILL before every step that leaves something behind, where a part of the journal is archived: what is left agrees,
and the same command does the rest. The second run, which does the rest, is killed too, at another step each time.

The steps are calls of C functions in a child process (see `test_archive_kills`): those that change a directory, and every statement of the
transactions that an erasure sends to its database. A sample of them here, of an entity; every step, of an entity, an account, a claim and an
actor, with HOLDKIT_FAULTS=every (`make prove`).
"""

from __future__ import annotations

from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdkit
from holdkit.core.erasure import By
from holdkit.kernel import archive as kernel_archive
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock
from tests.engines import test_archive_kills
from tests.engines.test_archive_kills import OF_A_DATABASE, OF_THE_DIRECTORY, killed_at
from tests.engines.test_erasure_archived import Life
from tests.faults.sampling import STRIDE

WHOLE = STRIDE == 1
"""Whether every step is tried."""
SELECTORS: tuple[By, ...] = ("entity", "account", "claim", "actor") if WHOLE else ("entity",)
FEWEST = {"sqlite": 30, "postgres": 20}
"""Steps of an erasure at least: fewer would mean that the functions have other names."""
EVERY = {"sqlite": 6, "postgres": 20}
"""Each takes its time: every so many steps is killed before, if not each."""
FRESH = 25
"""Steps after which another database is used: what is erased stays in the journal, and makes it longer."""
CHANGES = ("change", "remember", "forget", "finish_erasure", "apply")
"""What sends the statements of a transaction."""
NAMES: dict[By, str] = {"entity": 'user:"Zoë"', "account": "customer", "claim": "mail:zoe", "actor": "user:clerk-zoe"}


def is_step(frame: FrameType, function: Any) -> bool:
    """Whether something may be left behind if the process ends before this call."""
    if getattr(function, "__module__", None) == "posix":
        return function.__name__ in OF_THE_DIRECTORY
    if function.__name__ not in OF_A_DATABASE:
        return False
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_name not in CHANGES:
        caller = caller.f_back
    return caller is not None


@pytest.mark.parametrize("by", SELECTORS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_anywhere_the_same_command_does_the_rest(
    kind: str, by: By, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_archive, "MAX_ENTRIES", 40)
    monkeypatch.setattr(test_archive_kills, "is_step", is_step)
    life = begun(kind, tmp_path / "data", request)
    step, half, twice, killed = 1, 0, 0, True
    while killed:
        if step % FRESH == 0:
            life = begun(kind, tmp_path / f"data{step}", request)
        name = f"{NAMES[by]}-{step:03}"
        live(life, by, name)
        killed = killed_at(step, lambda life=life, name=name: erase(life, by, name))  # type: ignore[misc]
        if killed:
            half += checked(life)
            twice += killed_at(1 + step * 7 % FEWEST[kind], lambda life=life, name=name: erase(life, by, name))  # type: ignore[misc]
            checked(life)
            erase(life, by, name)
            step += 1 if WHOLE else EVERY[kind]
        assert not checked(life), "the erasure has ended"
        gone(life, name)
    assert step > FEWEST[kind]
    assert half > 2, "it was killed while files and database differed"
    assert twice > 2, "the second run was killed too"


def begun(kind: str, folder: Path, request: pytest.FixtureRequest) -> Life:
    """A database with two pools."""
    folder.mkdir()
    url = request.getfixturevalue("migrated")(lanes=2) if kind == "postgres" else f"{kind}:///{folder}/holds"
    life = Life(url, folder)
    life.pools()
    life.hk.close()
    return life


def checked(life: Life) -> bool:
    """Rows, journal, files and seals agree; returns whether an erasure has begun and not ended."""
    with holdkit.connect(life.url, clock=life.clock) as life.hk:
        life.check()
        erasing = life.hk._executor.engine.capabilities.erasure
        assert erasing is not None
        return erasing.unfinished()


def gone(life: Life, name: str) -> None:
    """Neither the value nor a draft of a file is left in any byte that is stored. (A claim's key is a type and a value.)"""
    assert not list(life.to.glob(".*"))
    assert life.left((name.removeprefix("mail:"),)) == []


def live(life: Life, by: By, name: str) -> None:
    """A person with a hold that is archived, one that is partly, and one that is kept."""
    life.hk = hk = holdkit.connect(life.url, clock=life.clock)
    pool = "show" if by == "account" else "plain"
    told: dict[str, Any] = {by: name, "metadata": {"of": name}} if by in ("entity", "account") else {by: name}
    type, _, value = name.partition(":")
    mine: Any
    if by == "claim":
        hk.claims.hold(type, value, ttl="1h")
        life.clock.advance(2 * 3_600)
        mine = hk.confirm(hk.claims.hold(type, value, ttl="1h"), entity="user:9")
    else:
        mine = [hk.hold(pool, 1, ttl="20d", **told) for _ in range(2)]
        hk.release(mine[0])
    Sealer(hk._executor.engine).step(all_now=True)
    life.clock.advance(16 * 86_400)
    if by == "claim":
        hk.claims.free(type, value, reason="left")
        hk.confirm(hk.claims.hold(type, value, ttl="1h"), entity="user:9")
    else:
        hk.release(mine[1], actor=name if by == "actor" else None)
        hk.hold(pool, 1, ttl="1d", **told)
    assert life.archive() > 0
    hk.close()


def erase(life: Life, by: By, name: str) -> None:
    with holdkit.connect(life.url, clock=FakeClock(life.clock())) as hk:
        hk.admin.erase(by, name, archive=life.to, reason="request 1")
