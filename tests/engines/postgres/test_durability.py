"""What settings and standbys mean for a done answer: every rung, without a server. (On real pairs: tests/faults/postgres.)"""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.engines.durability import Standby
from holdkit.engines.postgres import engine as engine_module
from holdkit.engines.postgres import opening
from holdkit.engines.postgres.connections import PipelineConnection
from holdkit.engines.postgres.opening import assess
from tests.engines.commands import create
from tests.engines.postgres.conftest import Open
from tests.engines.postgres.engine_calls import done

SETTINGS = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "synchronous_standby_names": ""}
SYNC, ASYNC, AWAY, HIDDEN = (
    Standby("s1", "synchronous"),
    Standby("s2", "asynchronous"),
    Standby("s3", "away"),
    Standby("s4", "unknown"),
)
LOSES, WAITS, HIDES = "may lose the last changes", "so commits wait", "database role may not see"
GRANT = "grant it pg_read_all_stats or pg_monitor"


@pytest.mark.parametrize(
    ("settings", "standbys", "level", "says", "advice"),
    [
        ({}, [], "local", "no standby is connected", ""),
        ({"synchronous_commit": "local"}, [], "local", "no standby is connected", ""),
        ({}, [ASYNC], "asynchronous_standby", f"there is one (s2, asynchronous): a failover {LOSES}", "name it in"),
        ({}, [AWAY], "asynchronous_standby", "there is one (s3, away)", "name it in synchronous_standby_names"),
        ({}, [ASYNC, AWAY], "asynchronous_standby", "(s2, asynchronous, s3, away)", "name it in"),
        ({}, [HIDDEN], "asynchronous_standby", f"there may be one (s4, unknown): a failover {LOSES} before it", GRANT),
        ({}, [Standby("", "unknown")], "asynchronous_standby", "there may be one (unnamed, unknown)", GRANT),
        ({"synchronous_standby_names": "s1"}, [SYNC], "synchronous", "on the disk of a synchronous standby (s1)", ""),
        ({"synchronous_standby_names": "s1", "synchronous_commit": "remote_write"}, [SYNC], "synchronous",
         "in the memory of a synchronous standby (s1)", ""),
        ({"synchronous_standby_names": "s1", "synchronous_commit": "remote_apply"}, [SYNC], "synchronous",
         "and applied there (s1)", ""),
        ({"synchronous_standby_names": "*"}, [SYNC, ASYNC], "synchronous", f"another standby (s2, asynchronous) {LOSES}", ""),
        ({"synchronous_standby_names": "s1"}, [], "synchronous", WAITS, "start the standby, or take its name out"),
        ({"synchronous_standby_names": "s1"}, [AWAY], "synchronous", WAITS, "start the standby"),
        ({"synchronous_standby_names": "s1"}, [HIDDEN], "synchronous", HIDES, GRANT),
        ({"synchronous_standby_names": "s1", "synchronous_commit": "local"}, [SYNC], "asynchronous_standby", LOSES,
         "set synchronous_commit = on"),
        ({"synchronous_standby_names": "s1", "synchronous_commit": "local"}, [], "asynchronous_standby", LOSES,
         "set synchronous_commit = on"),
        ({"synchronous_commit": "off"}, [], "unsafe", "synchronous_commit = off: a crash", "switch on synchronous_commit"),
        ({"fsync": "off", "full_page_writes": "off", "synchronous_standby_names": "s1"}, [SYNC], "unsafe",
         "fsync, full_page_writes = off", "switch on fsync, full_page_writes"),
    ],
)  # fmt: skip
def test_what_settings_and_standbys_mean(
    settings: dict[str, str], standbys: list[Standby], level: str, says: str, advice: str
) -> None:
    found = assess(SETTINGS | settings, standbys)
    assert found.level == level
    assert says in found.says
    assert advice in found.advice if advice else found.advice == ""
    assert found.safe == (level in ("local", "synchronous"))
    assert (found.standbys, found.settings) == (tuple(standbys), SETTINGS | settings)
    assert (HIDES in found.says) == (GRANT in found.advice) == any(one.state == "unknown" for one in standbys)
    assert (WAITS in found.says) == (found.level == "synchronous" and not {SYNC, HIDDEN} & {*standbys})


@pytest.mark.usefixtures("no_notifier")  # its statements would be counted
def test_it_is_read_with_every_new_connection_and_not_with_every_call(
    open_engine: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    opened: list[PipelineConnection] = []

    def connect(*said: Any, **more: Any) -> PipelineConnection:
        opened.append(opening.connect(*said, **more))
        return opened[-1]

    monkeypatch.setattr(engine_module, "connect", connect)
    engine = open_engine(on_statement=seen.append)
    for number in range(10):
        done(engine, create(f"p{number}"))
        if number == 5:
            engine._connections.drop_idle()
    engine.close()  # whoever tells others of the writes has come to an end, too
    assert 2 <= len(opened) <= 4
    assert seen.count("read_durability") == seen.count("read_standbys") == len(opened)
