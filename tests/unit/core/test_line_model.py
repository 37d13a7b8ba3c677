"""The model of lines, accounts and trees, proved against itself: as the rules stand, no random history breaks one of them; read in
another way that seemed plausible, one does.

The model is the oracle for the core: a rule that it gets wrong would be got wrong twice. HOLDKIT_SEED and HOLDKIT_EXAMPLES repeat a
run and lengthen it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import fields
from random import Random

import pytest

from tests.support.line_model.histories import broken_by, draw_history, play, run, shortened, told
from tests.support.line_model.state import Reading, State
from tests.support.line_model.steps import (
    Confirm,
    Consume,
    History,
    Join,
    Limit,
    Place,
    Release,
    ReleaseInTransaction,
    Return,
    ReturnLoose,
)

SEED = int(os.environ.get("HOLDKIT_SEED", "16"))
HISTORIES = int(os.environ.get("HOLDKIT_EXAMPLES", "50"))
pytestmark = pytest.mark.skipif("MUTANT_UNDER_TEST" in os.environ, reason="the model is not mutated")
STEPS = 50

REJECTED: dict[str, tuple[str, History]] = {
    "lines_below_roots": ("stuck", (
        Place("a", {"V": 2}, 9, "c1"),
        Join("b", "V//a", 2, 99, 5, "c2"),
        Release("a"),  # touches V: the line of V//a is not looked at
    )),
    "tallied_when_offered": ("lock", (
        Place("a", {"F": 2}, 9, "c1"),
        Join("b", "F", 2, 99, 5, "c2"),
        Release("a"),  # whoever frees units has not locked the tally of the account that they are offered to
    )),
    "large_waiters_block": ("dead line", (
        Join("a", "G", 3, 99, 5),
    )),
    "overage_passes_the_line": ("overtaking", (
        Place("a", {"G": 1}, 9),
        Join("b", "G", 2, 99, 5),
        Confirm("a", 2, "if_available"),
    )),
    "levels_are_legs": ("consumed", (
        Place("a", {"V//a": 2}, 9, "c1"),
        Confirm("a", 1),  # the ancestor counts nothing, and sells the unit again
    )),
    "any_consumed_unit_returns": ("consumed", (
        Consume("a", {"G": 1}),
        Consume("b", {"G": 1}),
        ReturnLoose("G", 1, bought_by="a"),
        Return("a", 1),  # the same unit a second time, so that b's is sold again
    )),
    "offers_in_transactions": ("lost place", (
        Place("a", {"G": 2}, 9),
        Join("b", "G", 1, 99, 5),
        ReleaseInTransaction("a", delay=6),
    )),
    "limit_of_first_call": ("account limit", (
        Place("a", {"F": 1}, 9, "c1"),
        Limit("F", 1),
        Place("b", {"F": 1}, 9, "c1"),
    )),
    "several_legs_pass": ("overtaking", (
        Place("a", {"G": 1}, 9),
        Join("b", "G", 2, 99, 5),
        Place("c", {"G": 1, "S": 1}, 9),
    )),
    "only_frees_offer": ("stuck", (
        Join("a", "G", 1, 99, 5),
    )),
}  # fmt: skip
"""Each reading that was rejected: the rule that it breaks, and a short history that shows it."""


def test_every_rejected_reading_has_its_example() -> None:
    assert [field.name for field in fields(Reading)] == list(REJECTED)


@pytest.mark.parametrize("name", REJECTED)
def test_a_rejected_reading_breaks_a_rule(name: str) -> None:
    rule, history = REJECTED[name]
    broken = play(history, Reading(**{name: True}))
    assert broken is not None
    assert broken.startswith(rule)
    assert play(history) is None, "as the rules stand, this is no trouble"


@pytest.mark.parametrize("name", REJECTED)
def test_canary_random_histories_find_it(name: str) -> None:
    """So they would find a mistake of this kind in the rules as they stand."""
    reading, random = Reading(**{name: True}), Random(SEED)
    found = (play(draw_history(random, STEPS, reading), reading) for _ in range(500))
    assert any(broken is not None for broken in found), f"HOLDKIT_SEED={SEED}: 500 histories break no rule"


@pytest.mark.parametrize("max_offers", [1, 1_000])
def test_the_rules_as_they_stand_break_nothing(max_offers: int) -> None:
    random = Random(SEED)
    for number in range(HISTORIES):
        history = draw_history(random, STEPS, max_offers=max_offers)
        if play(history, max_offers=max_offers) is not None:
            short = shortened(history, lambda steps: play(steps, max_offers=max_offers) is not None)
            broken = play(short, max_offers=max_offers)
            pytest.fail(f"history {number} of HOLDKIT_SEED={SEED}: {broken}\n{told(short)}")


def test_the_histories_meet_every_answer() -> None:
    """A reason that is never given, or a waiter who is never served, would prove nothing."""
    random, answers = Random(SEED), Counter[str]()
    for _ in range(HISTORIES):
        state = State(Reading(), max_offers=1)
        for step in draw_history(random, STEPS):
            served = {name for name, hold in state.holds.items() if hold.state == "waiting"}
            answer = run(state, step)
            answers[answer.partition(" at ")[0]] += 1
            answers["aborted"] += " at " in answer
            answers["offered later"] += any(state.holds[name].state == "held" for name in served & state.holds.keys())
            answers["loose"] += isinstance(step, ReturnLoose) and answer == "done"
    rare = {word: answers[word] for word in ANSWERS if answers[word] < HISTORIES / 20}
    assert rare == {}, answers
    assert answers.keys() <= ANSWERS, answers


ANSWERS = {
    "done", "invalid", "pool_archived", "account_required", "account_limit", "insufficient_capacity", "line_ahead", "hold_not_found",
    "hold_waiting", "already_confirmed", "already_released", "hold_expired", "not_due", "not_confirmed", "quantity_exceeds_hold",
    "quantity_exceeds_consumed", "below_in_use", "aborted", "offered later", "loose",
}  # fmt: skip


def test_a_history_is_shortened_to_what_matters() -> None:
    reading = Reading(overage_passes_the_line=True)
    _, short = REJECTED["overage_passes_the_line"]
    noise: History = (Place("x", {"S": 1}, 9), Confirm("x"), Join("y", "F", 1, 9, 5, "c1"))
    mixed: History = (noise[0], short[0], noise[1], short[1], noise[2], short[2], Release("y"))
    assert shortened(mixed, lambda steps: play(steps, reading) is not None) == short


def test_the_same_history_ends_in_the_same_state() -> None:
    history = draw_history(Random(SEED), STEPS)
    first, second = State(Reading(), 1), State(Reading(), 1)
    for step in history:
        assert broken_by(first, step) is broken_by(second, step) is None
    assert (first.now, first.pools, first.holds) == (second.now, second.pools, second.holds)
