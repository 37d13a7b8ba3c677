"""Each canary breaks one promise; each harness must notice. A harness that lets its canary pass counts as not written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.faults import tracing, trials
from tests.faults.canaries import CANARIES
from tests.faults.fault_points import Fault
from tests.faults.fork_server import Job, Report
from tests.faults.trials import ForkServer, Verdict

pytestmark = pytest.mark.slow

traced = pytest.mark.skipif(tracing.STRACE is None, reason="strace is not installed: its canaries were not tried")


def kinds_of(fork_server: ForkServer, canary: str) -> list[str]:
    """The statements of the canary's own undisturbed run."""
    reports: list[Report] = []
    fork_server.run(Job(path=str(fork_server.new_path()), canary=canary), reports.append)
    return reports[-1].kinds


def caught(trials_of: Iterable[Callable[[], Verdict]]) -> str:
    """What the real harness says of the first trial that it does not accept."""
    for trial in trials_of:
        verdict = trial()
        if verdict.violations:
            return "\n".join(verdict.violations)
    return ""


def at(fork_server: ForkServer, canary: str, kind: str) -> list[int]:
    kinds = kinds_of(fork_server, canary)
    return [number for number in range(40, len(kinds) + 1) if kinds[number - 1] == kind]


@pytest.mark.parametrize("canary", sorted(CANARIES))
def test_undisturbed_it_is_as_good_as_the_real_one(fork_server: ForkServer, canary: str) -> None:
    assert not trials.errors(fork_server, [], canary).violations


@pytest.mark.parametrize(
    ("canary", "kind", "when", "words"),
    [
        ("acknowledge_before_commit", "begin immediate", "before", "after the kill the file is in between"),
        ("operation_row_apart", "commit", "after", "after the kill the file is in between"),
        ("journal_apart", "commit", "after", "after the kill the file is in between"),
    ],
)
def test_a_kill_tells(fork_server: ForkServer, canary: str, kind: str, when: str, words: str) -> None:
    faults = [Fault(number, when, "kill") for number in at(fork_server, canary, kind)]  # type: ignore[arg-type]
    found = caught(lambda fault=fault: trials.kill(fork_server, fault, canary=canary) for fault in faults)  # type: ignore[misc]
    assert words in found


def test_an_error_at_commit_tells_what_was_applied_twice(fork_server: ForkServer) -> None:
    faults = [Fault(number, "after", "io") for number in at(fork_server, "applied_twice", "commit")]
    found = caught(lambda fault=fault: trials.errors(fork_server, [fault], "applied_twice") for fault in faults)  # type: ignore[misc]
    assert found


def test_an_error_at_commit_tells_unknown_from_none(fork_server: ForkServer) -> None:
    def trial(number: int) -> Verdict:
        faults = [Fault(number, "after", "io")] + [Fault(number + later, "before", "io") for later in range(1, 4)]
        return trials.errors(fork_server, faults, "unknown_as_none")

    found = caught(lambda number=number: trial(number) for number in at(fork_server, "unknown_as_none", "commit"))  # type: ignore[misc]
    assert "EngineError, yet it had an effect" in found


@traced
def test_a_failed_sync_tells_who_tried_it_again(fork_server: ForkServer) -> None:
    canary = "retried_sync"
    injects = [f"fdatasync:error=EIO:when={number}" for number in range(20, tracing.count(fork_server)["fdatasync"], 3)]
    found = caught(lambda inject=inject: tracing.errors(fork_server, inject, canary) for inject in injects)  # type: ignore[misc]
    assert "acknowledged before it was on disk" in found


@traced
def test_the_trace_tells_who_answered_before_the_sync(fork_server: ForkServer) -> None:
    """Without any fault at all: the answer left before the frames were on disk."""
    with pytest.raises(AssertionError):
        tracing.count(fork_server, "acknowledge_before_sync")


def test_a_disturbed_file_is_not_taken_for_a_sound_one(fork_server: ForkServer) -> None:
    """The judge itself: a row that is missing, and one too many, are both seen."""
    states = fork_server.clean.states
    assert len({state for list_ in states.values() for state in list_}) > 30
    for step, mine in states.items():
        assert len(set(mine)) == len(mine), f"step {step} passes through the same state twice"
