"""The clock of the server is set forward and back while guarded batches run: slots along a pool never go back, and deadlines hold."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import Final

import pytest

import holdkit
from holdkit.core.model import SECOND
from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import PostgresServer
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign import guarded
from tests.faults.campaign.check import check
from tests.faults.campaign.guarded_callers import LANES

SEED: Final = 13
TTL: Final = 60
STEPS: Final = (0, 3_600, -3_600, 7_200, 7_170, 0)
"""Seconds by which the server's clock is wrong, one after another."""
SMALL: Final = (-2.0, 2.0)
"""Of a clock that wanders. (Farther back, and a session that waits for a lock would find a deadlock only when that time has passed.)"""


class ServerClock:
    """The clock of a server that was started with `server_clock.c`: all of its processes read from a file by how much it is wrong."""

    def __init__(self, folder: Path) -> None:
        path, library = folder / "clock", folder / "server_clock.so"
        path.write_bytes(bytes(8))
        source = Path(__file__).with_name("server_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source], check=True)
        with path.open("r+b") as file:
            self._wrong_by = mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "HOLDKIT_SERVER_CLOCK": str(path)}

    def set(self, seconds: float) -> None:
        """From now on, at once, in all processes."""
        self._wrong_by[:] = round(seconds * 1_000_000_000).to_bytes(8, sys.byteorder, signed=True)


@pytest.fixture(scope="module")
def stepped(postgres_binaries: object) -> Iterator[tuple[PostgresServer, ServerClock]]:
    """A server and its clock."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler; no clock of a server was set")
    with (
        tempfile.TemporaryDirectory(prefix="holdkit-clock-", dir=memory()) as folder,
        PostgresServer(within=memory()) as server,
    ):
        Path(folder).chmod(0o755)
        clock = ServerClock(Path(folder))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in clock.environment.items():
                patch.setenv(name, value)
            server.restart()
        yield server, clock
        clock.set(0)


def database(server: PostgresServer, name: str) -> str:
    """A new database with our tables."""
    url = server.create_database(name)
    migrate(url, lanes=LANES)
    return url


def test_a_clock_that_is_set_forward_and_back(stepped: tuple[PostgresServer, ServerClock]) -> None:
    """By hours: a hold ends by the time of its pool, which stands still while the clock is behind it."""
    server, clock = stepped
    latest, kept = 0, list[holdkit.Hold]()
    with holdkit.connect(database(server, "steps")) as hk:
        hk.create_pool("p", 100)
        for number, wrong in enumerate(STEPS):
            clock.set(wrong)
            forward = number > 0 and wrong > STEPS[number - 1]
            for hold in kept:
                if forward:
                    with pytest.raises(holdkit.HoldExpired):
                        hk.confirm(hold)
                else:
                    hk.confirm(hold)
            before = hk.admin.stats().guards.passed
            holds = [hk.hold("p", 1, ttl=TTL, op=f"{number}-{each}" if each % 2 else None) for each in range(6)]
            hk.confirm(holds[0])
            hk.release(holds[1])
            kept = holds[2:4]
            slots = [hold.raw.held_at or 0 for hold in holds]
            assert slots == sorted(slots)
            assert slots[0] >= latest
            assert [hold.raw.deadline for hold in holds] == [slot + TTL * SECOND for slot in slots]
            assert hk.admin.stats().guards.passed >= before + 4, hk.admin.stats().guards
            latest = slots[-1]
        assert check(hk, [], ["p"]).violations == []


def test_the_clock_of_the_server_allocates_nothing(stepped: tuple[PostgresServer, ServerClock]) -> None:
    """The server reads its clock whenever a timer expires, inside malloc too: a clock that allocates there corrupts the heap, the session
    dies, and the server ends all others. So the library calls what is named here, and nothing else."""
    _, clock = stepped
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", clock.environment["LD_PRELOAD"]], capture_output=True, text=True, check=True
    )
    called = {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines() if " U " in line}
    assert called == {"abort", "close", "getenv", "mmap", "open", "syscall"}


@pytest.mark.parametrize("canary", ["", "slots go back"])
def test_a_clock_that_wanders_under_competing_processes(
    stepped: tuple[PostgresServer, ServerClock], canary: str
) -> None:
    """No session is lost, so no outcome is unknown, and every answer has its entry; with the canary, slots follow the clock back."""
    server, clock = stepped
    chance, steps = random.Random(SEED), list[float]()

    def step() -> None:
        steps.append(chance.uniform(*SMALL))
        clock.set(steps[-1])

    found = guarded.stress(database(server, f"wandering{bool(canary):d}"), SEED, 300, canary, step)
    assert len(steps) > 10
    assert (
        found.passed > 0
    )  # how many depends on how busy the machine is: a clock set forward ends waits for locks early
    wrong = found.verdict.violations
    assert any("back to" in words for words in wrong) if canary else wrong == [], server.log(200)
