"""What all tests share: where their files are, in which order they run, what `--quick` leaves out, and common fixtures."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from holdkit.core.bounds import Limits
from holdkit.engines.postgres.migrating import Layout
from holdkit.testing.postgres import ServerAddress
from holdkit.testing.postgres.shared import memory
from tests.support.databases import Database, Databases
from tests.support.kernels import VARIANTS, Store
from tests.support.modes import Async, Sync
from tests.support.threads import no_threads_left

pytest_plugins = ["holdkit.testing.postgres.plugin"]

settings.register_profile(
    "holdkit",
    deadline=None,  # a slow machine is no fault of the code
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # a red run is about the change; elsewhere every run looks somewhere else
    print_blob=True,
    phases=[
        phase for phase in Phase if "HOLDKIT_MUTANTS" not in os.environ or phase not in (Phase.shrink, Phase.explain)
    ],
    # a mutant is dead at the first example that fails: looking for a smaller one takes longer than all other tests
)
settings.load_profile("holdkit")

Migrated = Callable[..., str]
LONGEST = (
    "tests/acceptance/state_machine/",
    "tests/simulation/",
    "tests/faults/",
    "tests/integration/server/test_soak.py",
)
NOT_QUICK = frozenset({"postgres", "lanes", "apart"})
"""Engines that `--quick` leaves to the whole run."""

CITUS = Path(__file__).parent / "engines" / "citus"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was not collected, for what needs a cluster cannot run everywhere; and how many hostile clients proxies met."""
    asked = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    if "HOLDKIT_TEST_CITUS_URL" not in os.environ and any(CITUS.is_relative_to(path) for path in asked):
        terminalreporter.write_line(
            "tests/engines/citus: not collected, because they need a Citus cluster. Set HOLDKIT_TEST_CITUS_URL to a database on its "
            "coordinator (compose.yaml starts one); they drop the schema holdkit there."
        )
    properties = [named for report in terminalreporter.stats.get("passed", ()) for named in report.user_properties]
    for program, kind, sent, through in [clients for name, clients in properties if name == "hostile clients"]:
        terminalreporter.write_line(f"{program}: {sent} hostile clients, {through} got through: {kind}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="without slow tests; of the engines, memory and SQLite only")


def pytest_configure() -> None:
    """Files in memory where there is room: thousands of small files are synced, and no test is about the disk's own speed.

    Every sync is still asked for. TMPDIR decides otherwise. HTTP clients read one certificate where they would read the authorities
    of the world: that takes longer than most tests, and none of them asks anybody on the internet. A shell starts jobs in the
    background with SIGINT ignored, which the programs that tests interrupt would inherit.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "support" / "nobody.pem")
    place = memory()
    if place is not None and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest tests begin first: what is long and comes last keeps one worker busy while the other waits."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if config.getoption("--quick"):
        skipped_locked = [item for item in items if not is_quick(item)]
        config.hook.pytest_deselected(items=skipped_locked)
        items[:] = [item for item in items if is_quick(item)]


def is_quick(item: pytest.Item) -> bool:
    """Whether it is neither slow nor on an engine that is left out."""
    fixtures: tuple[str, ...] = getattr(item, "fixturenames", ())
    if item.get_closest_marker("slow") or "postgres_server" in fixtures:
        return False
    callspec = getattr(item, "callspec", None)
    return callspec is None or NOT_QUICK.isdisjoint(words(callspec.params.values()))


@pytest.fixture(scope="session")
def postgres_kept(postgres_server: ServerAddress) -> Databases:
    """The databases that tests hand on to one another."""
    return Databases(postgres_server)


@pytest.fixture
def migrated(postgres_kept: Databases) -> Iterator[Migrated]:
    """Gives the URL of a database with our tables, as they are when they are made: `migrated(lanes=8)`."""
    taken: list[Database] = []

    def take(layout: Layout = "one server", lanes: int | None = None, limits: Limits | None = None) -> str:
        taken.append(postgres_kept.take(layout, lanes, limits))
        return taken[-1].url

    yield take
    for database in taken:
        database.give_back()


@pytest.fixture(params=VARIANTS, ids="-".join)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every engine, sync and async."""
    engine, mode = request.param
    made = Store(engine, mode, tmp_path, request.getfixturevalue("migrated") if engine == "postgres" else None)
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Iterator[Sync | Async]:
    """Sync and async, for kernels on an engine that the test makes; no thread of ours may be left."""
    before = set(threading.enumerate())
    made = Sync() if request.param == "sync" else Async()
    yield made
    made.close()
    no_threads_left(before)


def words(values: Any) -> Iterator[str]:
    """The texts among parameters, those within tuples too."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from words(value)
