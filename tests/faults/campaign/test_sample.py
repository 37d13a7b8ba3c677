"""A sample of the campaign, with its canaries: R8, R11 and R12 in `make test`. All of it: `make faults`."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from holdkit.engines.postgres import migrate
from holdkit.testing.postgres import ServerAddress
from tests.faults.campaign import disk, failovers, guarded, local_faults
from tests.faults.campaign.check import Verdict
from tests.faults.campaign.guarded_callers import LANES
from tests.faults.campaign.pair import Pair
from tests.faults.campaign.stores import STORES

SEED = 13


def expect_sound(verdicts: list[Verdict], number: int) -> None:
    assert [words for verdict in verdicts for words in verdict.violations] == []
    assert len(verdicts) == number
    assert all(verdict.done > 0 for verdict in verdicts)


@pytest.fixture
def power() -> None:
    """Skips where the power cannot be cut."""
    if why := disk.missing():
        pytest.skip(f"the power of a file system cannot be cut here: {why}; R8 was not tried")


@pytest.mark.slow
def test_failovers_take_back_no_answer(postgres_binaries: object) -> None:
    kinds = ["killed", "cancelled_waits", "network_cut", "crash_alone", "standby_stopped"]
    with Pair() as pair, failovers.Trial(pair, SEED) as trial:
        rounds = [trial.round(kind) for kind in kinds]
    expect_sound([each.verdict for each in rounds], len(kinds))
    assert rounds[1].cancelled >= 3
    passed = [0, *(each.guarded for each in rounds)]
    assert all(after > before for before, after in pairwise(passed)), "in some round nothing went by the guard"


@pytest.mark.slow
def test_canary_an_asynchronous_standby_loses_answers_that_said_so(postgres_binaries: object) -> None:
    """The same fault as `standby_stopped` above, which takes nothing back where commits wait for the standby."""
    verdict = failovers.asynchronous(SEED).verdict
    told = Counter(words.rpartition(" told done, ")[2] for words in verdict.lost if " told done, " in words)
    assert told["asynchronous_standby"] > failovers.WARM // 2, "others were told by a refusal that they had happened"
    assert told.keys() <= {"asynchronous_standby", "local"}, (
        "local: the standby's connection died before the last backends"
    )


@pytest.mark.slow
def test_canary_answers_from_unproved_reads_are_lost(postgres_binaries: object) -> None:
    assert any(each.verdict.lost for each in failovers.canary("unproved", "cancelled_waits", 8, SEED))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cancelled_waits", "crash_alone"])
def test_canary_followers_that_wait_for_no_standby_are_shown_what_a_failover_takes_back(
    kind: str, postgres_binaries: object
) -> None:
    assert any(each.verdict.gone for each in failovers.canary("unproved pages", kind, 4, SEED))


@pytest.mark.slow
@pytest.mark.parametrize(("store", "number"), [("sqlite", 8), ("postgres", 4)])
def test_power_cuts_take_back_no_answer(store: str, number: int, power: None, postgres_binaries: object) -> None:
    found = list(local_faults.power_cuts(store, number, SEED))
    expect_sound([each.verdict for each in found], number)
    assert sum(each.during_recovery for each in found) > 0


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_canary_without_syncs_a_power_cut_loses_answers(store: str, power: None, postgres_binaries: object) -> None:
    assert any(each.verdict.violations for each in local_faults.power_cuts(store, 5, SEED, unsafe=True))


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_crashes_take_back_no_answer(store: str, postgres_binaries: object) -> None:
    expect_sound([each.verdict for each in local_faults.crashes(store, 3, SEED)], 3)


@pytest.mark.slow
def test_canary_commits_that_do_not_wait_for_the_disk_are_lost(postgres_binaries: object) -> None:
    assert any(each.verdict.lost for each in local_faults.crashes("postgres", 5, SEED, unsafe=True))


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_full_disk_takes_back_no_answer(store: str, power: None, postgres_binaries: object) -> None:
    expect_sound([each.verdict for each in local_faults.full_disks(store, 1, SEED)], 1)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    """As many lanes as the ids of `guarded_callers` are made for."""
    return postgres_server.template(f"holdkit_{LANES}", lambda url: migrate(url, lanes=LANES))


def test_guarded_batches_of_competing_processes_are_sound(postgres_url: str) -> None:
    found = guarded.stress(postgres_url, SEED, 400)
    expect_sound([found.verdict], 1)
    assert found.passed > 50
    assert found.returned > 0


def test_batches_that_go_by_the_guard_where_it_is_expected_to_pass_are_sound(postgres_url: str) -> None:
    """The same with the guesses of the default: batches change between the guard and the ordinary way all the time."""
    found = guarded.stress(postgres_url, SEED, 400, eager=False)
    expect_sound([found.verdict], 1)
    assert found.passed > 0


def test_canary_a_guarded_batch_that_locks_nothing_is_noticed(postgres_url: str) -> None:
    assert guarded.stress(postgres_url, SEED, 300, "pools are not locked").verdict.unsound
