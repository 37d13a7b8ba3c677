"""Every statement of the scripted run fails once, before it runs and after; and kills once, before and after. Every twelfth of
them here, and each in `make prove`.

R5 and R6 at the border to SQLite. A commit that is said to have failed although it was applied is the measured case: an
fsync error at COMMIT raises, and after reopening the row is there. ("Disk full" at COMMIT is tried as not applied only: the
commit record is the last frame written, and there was no room for it.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.faults import script, trials
from tests.faults.fault_points import Fault, What, When
from tests.faults.reporting import TrialCounts
from tests.faults.sampling import EVERYTHING, SHARDS, STRIDE, sample, shard
from tests.faults.trials import ForkServer

Record = Callable[[str, object], None]
WHENS: tuple[When, ...] = ("before", "after")

KINDS = frozenset(
    [
        "begin_immediate",
        "commit",
        "rollback",
        "pragma_journal_mode",
        "pragma_wal_checkpoint",
        "create_table",
        "create_index",
        "list_our_tables",
        "has_version_table",
        "record_version",
        "load_settings",
        "put_setting",
        "load_head",
        "load_pool",
        "load_pools",
        "load_hold",
        "load_holds",
        "load_operation",
        "load_operations",
        "load_record",
        "load_due",
        "load_sweep",
        "load_empty_pools",
        "insert_pools",
        "update_pools",
        "delete_pools",
        "insert_plain_holds",
        "insert_holds",
        "update_holds",
        "insert_legs",
        "put_legs",
        "delete_legs",
        "insert_journal",
        "put_operations",
        "put_records",
        "delete_records",
        "prune_operations",
        "prune_holds",
        "read_pool",
        "read_hold",
    ]
)
"""What the script must touch: a statement that is never executed is never disturbed."""


def numbers(fork_server: ForkServer) -> range:
    return range(1, len(fork_server.clean.kinds) + 1)


def test_the_script_touches_every_kind_of_statement(fork_server: ForkServer) -> None:
    seen = Counter(kind.replace(" ", "_") for kind in fork_server.clean.kinds)
    assert not KINDS - seen.keys()
    assert len(fork_server.clean.kinds) > 400
    assert seen["commit"] > 30
    assert {len(states) for states in fork_server.clean.states.values()} >= {1, 2, 3}, "reads, commands, and a backlog"


def test_the_undisturbed_run_is_the_same_every_time(fork_server: ForkServer) -> None:
    verdict = trials.errors(fork_server, [])
    assert not verdict.violations
    assert not verdict.fired


def writing(kind: str) -> bool:
    """Whether a statement asks for room on the disk."""
    return kind.startswith(
        ("begin", "commit", "create", "delete", "insert", "pragma", "prune", "put", "record", "update")
    )


def ending(kind: str) -> bool:
    """Whether what follows a statement differs from what comes before the next one."""
    return kind in ("begin immediate", "commit", "rollback", "pragma journal_mode", "pragma wal_checkpoint")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SHARDS))
@pytest.mark.parametrize(("when", "what"), [("before", "io"), ("after", "io"), ("before", "full")])
def test_an_error_at_every_statement(
    fork_server: ForkServer, part: int, when: When, what: What, record_property: Record
) -> None:
    """Behind a statement that changes nothing an error is the same as before it."""
    counted = TrialCounts()
    kinds = fork_server.clean.kinds
    every = EVERYTHING or (when, what) == ("before", "io")
    points = [
        number for number in numbers(fork_server) if every or writing(kinds[number - 1]) or ending(kinds[number - 1])
    ]
    for number in shard(points, part):
        verdict = trials.errors(fork_server, [Fault(number, when, what)])
        counted.add(kinds[number - 1], f"{number}:{when}:{what}", verdict)
    counted.check(record_property)
    assert counted.refused > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SHARDS))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_every_statement(fork_server: ForkServer, part: int, when: When, record_property: Record) -> None:
    """After a statement nothing happens before the next one, except behind those that end something."""
    counted = TrialCounts()
    kinds = fork_server.clean.kinds
    points = [number for number in numbers(fork_server) if EVERYTHING or when == "before" or ending(kinds[number - 1])]
    for number in shard(points, part):
        verdict = trials.kill(fork_server, Fault(number, when, "kill"))
        counted.add(kinds[number - 1], f"{number}:{when}:kill", verdict)
    counted.check(record_property)


def commits(fork_server: ForkServer) -> list[int]:
    """Statements that commit a step of the script: each kind of step has its own reasons to be there or not."""
    kinds, steps = fork_server.clean.kinds, fork_server.clean.step_at
    found = [number for number in numbers(fork_server) if kinds[number - 1] == "commit"]
    wanted = ["pool-refused", "hold-b", "confirm-a-part", "record-next", "atomic", "sweep", "behind-a-backlog", "prune"]
    chosen = [number for number in found if EVERYTHING or script.name_of(steps[number - 1]) in wanted]
    return chosen if EVERYTHING else sample(chosen, 6)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["before", "after"])
def test_a_second_error_while_the_first_is_being_resolved(
    fork_server: ForkServer, first: When, record_property: Record
) -> None:
    """COMMIT fails, and so does one of the statements by which the engine finds out what came of it."""
    counted = TrialCounts()
    for number in commits(fork_server):
        for later in range(1, 17, 1 if STRIDE == 1 else 3):
            for when in WHENS if EVERYTHING else WHENS[:1]:
                faults = [Fault(number, first, "io"), Fault(number + later, when, "io")]
                verdict = trials.errors(fork_server, faults)
                counted.add("commit", f"{number}:{first}:io {number + later}:{when}:io", verdict)
    counted.check(record_property)


@pytest.mark.slow
def test_a_commit_that_cannot_be_resolved_is_unknown(fork_server: ForkServer, record_property: Record) -> None:
    """Nothing that asks can be executed either: the answer is unknown, and asking again makes it one effect."""
    counted = TrialCounts()
    for number in commits(fork_server):
        for first in WHENS:
            faults = [Fault(number, first, "io")]
            faults += [Fault(number + later, "before", "io") for later in range(1, 4)]
            specs = " ".join(f"{fault.number}:{fault.when}:{fault.what}" for fault in faults)
            counted.add("commit", specs, trials.errors(fork_server, faults))
    counted.check(record_property)
    assert counted.unknown > 0


@pytest.mark.slow
def test_a_kill_while_the_file_is_being_reopened(fork_server: ForkServer, record_property: Record) -> None:
    """Recovery is itself killable, at each of its statements and of the first few behind it."""
    counted = TrialCounts()
    for number in sample(numbers(fork_server)[:-40], 5, 30):
        for second in range(1, 30) if EVERYTHING else (1, 4, 8, 12, 16):
            specs = f"{number}:after:kill {second}:before:kill"
            verdict = trials.kill(fork_server, Fault(number, "after", "kill"), Fault(second, "before", "kill"))
            counted.add("reopening", specs, verdict)
            assert verdict.fired == 2, specs
    counted.check(record_property)
