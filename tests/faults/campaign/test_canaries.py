"""A campaign whose canary loses nothing fails, and one that ran without its canaries says so."""

from __future__ import annotations

import pytest

from tests.faults.campaign import __main__ as campaign
from tests.faults.campaign import failovers, report
from tests.faults.campaign.check import Verdict
from tests.faults.campaign.report import Report

SOUND, LOST, UNSOUND = Verdict(done=60), Verdict(lost=["hold me/0/0 was told done"]), Verdict(unsound=["a row differs"])


def after(monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict) -> tuple[Report, list[int]]:
    """The report of failovers whose asynchronous canary comes to these verdicts, and then to sound ones; and the seeds of its pairs."""
    seeds = list[int]()

    def asynchronous(seed: int) -> failovers.Round:
        seeds.append(seed)
        verdict = verdicts[len(seeds) - 1] if len(seeds) <= len(verdicts) else SOUND
        return failovers.Round(kind="asynchronous_standby", verdict=verdict)

    monkeypatch.setattr(failovers, "asynchronous", asynchronous)
    one = campaign.Campaign(7)
    one.run_canaries("failovers")
    return one.report, seeds


def test_a_canary_that_loses_nothing_fails_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seeds = after(monkeypatch, SOUND)
    assert found.failures() == ["the canary asynchronous standby lost nothing"]
    assert "FAILED: the canary asynchronous standby lost nothing" in report.table(found)
    assert seeds == list(range(7, 7 + campaign.TRIES)), "each try is a pair of its own"


def test_another_violation_than_a_lost_answer_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unsound store would say nothing about whether the campaign notices lost answers."""
    found, _ = after(monkeypatch, UNSOUND, UNSOUND)
    assert found.failures() == ["the canary asynchronous standby lost nothing"]


def test_one_lost_answer_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seeds = after(monkeypatch, SOUND, LOST, SOUND)
    assert (found.failures(), seeds) == ([], [7, 8])
    assert "canary asynchronous standby: lost 1" in report.table(found)


def test_a_campaign_without_its_canaries_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = campaign.Campaign(7, canaries=False)
    monkeypatch.setattr(one, "fail_over", lambda name, number: None)
    one.run("failovers", 0)
    assert one.report.canaries == []
    assert "NOT RUN: canaries of failovers: left out by --no-canaries" in report.table(one.report)
