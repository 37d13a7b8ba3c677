"""System calls of the scripted run fail or kill, by strace: R5 and R6 at the border to the kernel.

A sample by default, spread evenly over each call; every single one with HOLDKIT_FAULTS=all. Every trace, the undisturbed
one too, is also read for answers that were given before the frames they rest on were on disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults import tracing
from tests.faults.reporting import TrialCounts
from tests.faults.sampling import EVERYTHING, SHARDS, sample, shard
from tests.faults.trials import ForkServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(tracing.STRACE is None, reason="strace is not installed: no system call was made to fail"),
]

Record = Callable[[str, object], None]

ERRORS = {
    "openat": ("EIO", "EMFILE"),
    "pread64": ("EIO",),
    "pwrite64": ("EIO", "ENOSPC"),
    "fsync": ("EIO",),
    "fdatasync": ("EIO",),
    "ftruncate": ("EIO", "ENOSPC"),
    "unlink": ("EIO",),
    "flock": ("ENOLCK",),
}
MOST = {"pwrite64": 16, "fdatasync": 16, "pread64": 8, "openat": 15, "flock": 8}


@pytest.fixture(scope="module")
def counts(fork_server: ForkServer) -> Counter[str]:
    return tracing.count(fork_server)


def calls(counts: Counter[str], call: str) -> list[int]:
    return sample(range(1, counts[call] + 1), MOST.get(call, 6))


def test_the_script_makes_these_calls_and_always_the_same(fork_server: ForkServer, counts: Counter[str]) -> None:
    assert set(ERRORS) <= set(counts)
    assert counts["pwrite64"] > 200
    assert counts["fdatasync"] > 50
    assert tracing.count(fork_server) == counts


@pytest.mark.parametrize("part", range(SHARDS))
def test_a_kill_at_a_system_call(
    fork_server: ForkServer, counts: Counter[str], part: int, record_property: Record
) -> None:
    counted = TrialCounts()
    points = [f"{call}:signal=KILL:when={number}" for call in ERRORS for number in calls(counts, call)]
    for inject in shard(points, part):
        counted.add(inject.split(":")[0], inject, tracing.kill(fork_server, inject))
    counted.check(record_property)


@pytest.mark.parametrize("part", range(SHARDS))
def test_an_error_at_a_system_call(
    fork_server: ForkServer, counts: Counter[str], part: int, record_property: Record
) -> None:
    counted = TrialCounts()
    points = [
        f"{call}:error={error}:when={number}"
        for call, errors in ERRORS.items()
        for error in errors
        for number in calls(counts, call)
    ]
    for inject in shard(points, part):
        counted.add(inject.rsplit(":", 1)[0], inject, tracing.errors(fork_server, inject))
    counted.check(record_property)


def test_nothing_is_acknowledged_while_no_sync_succeeds(
    fork_server: ForkServer, counts: Counter[str], record_property: Record
) -> None:
    """From the n-th on every fdatasync fails: no step with an effect is answered any more, and a new process goes on."""
    counted = TrialCounts()
    for number in sample(range(1, counts["fdatasync"] + 1), 8):
        inject = f"fdatasync:error=EIO:when={number}+"
        counted.add("fdatasync", inject, tracing.errors(fork_server, inject, lasting=True))
    counted.check(record_property)


def test_a_full_disk_that_stays_full(fork_server: ForkServer, counts: Counter[str], record_property: Record) -> None:
    """From the n-th on no write finds room: certainly no effect, and a new process goes on once there is room."""
    counted = TrialCounts()
    for number in sample(range(1, counts["pwrite64"] + 1), 8):
        inject = f"pwrite64:error=ENOSPC:when={number}+"
        counted.add("pwrite64", inject, tracing.errors(fork_server, inject, lasting=True))
    counted.check(record_property)
    assert counted.refused > 0


def test_a_second_kill_while_the_file_is_being_reopened(
    fork_server: ForkServer, counts: Counter[str], record_property: Record
) -> None:
    """Killed in the middle of a write, and again at a system call of the recovery."""
    counted = TrialCounts()
    seconds = {"openat": 8, "pread64": 8, "ftruncate": 1, "pwrite64": 4}
    for number in sample(range(1, counts["pwrite64"] + 1), 3, 40):
        for call, upto in seconds.items():
            for second in range(1, upto + 1) if EVERYTHING else {1, upto}:
                first = f"pwrite64:signal=KILL:when={number}"
                again = f"{call}:signal=KILL:when={second}"
                counted.add(call, f"{first} {again}", tracing.kill(fork_server, first, again))
    counted.check(record_property)
