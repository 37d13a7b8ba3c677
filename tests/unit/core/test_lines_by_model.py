"""The core, compared with the model of lines, accounts and trees: same answers, same pools, holds and tallies after every step of
random histories; and canaries, that each of several broken cores is noticed.

Where the model that the rules were worked out with says other things than the rules, the rules decide:

| There | Here, by the rules |
|---|---|
| a tally is counted only where there is a limit | on every level, so that a limit that is set later counts what is there |
| a return or a release of more than there is gives what there is | `quantity_exceeds_hold`, or `not_confirmed` |
| a waiter releases a part of what it waits for | `quantity_exceeds_hold` |
| an ended hold is found until a sweep drops it | found within its retention, and beyond that while units are consumed |
| a waiter without a ttl | every waiter has one |
| a join below a root is refused before anything is touched | an invalid request, after what is due on the pool was returned |
| offers beyond the bound wait for the next who comes | further transactions follow at once |

HOLDKIT_SEED and HOLDKIT_EXAMPLES repeat a run and lengthen it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from holdkit.core import decide
from holdkit.core.ladders import ending, expiry, lines, overage, placing, recording, retiring
from holdkit.core.model import Key, StoredHold
from holdkit.core.view import Loaded, View
from tests.support.line_model.comparing import Comparison, limits
from tests.support.line_model.histories import draw_history, shortened, told
from tests.support.line_model.steps import History
from tests.unit.core.line_world import LineWorld

SEED = int(os.environ.get("HOLDKIT_SEED", "16"))
MUTATED = "MUTANT_UNDER_TEST" in os.environ  # many short runs: the first history that differs will do
HISTORIES = 5 if MUTATED else int(os.environ.get("HOLDKIT_EXAMPLES", "40"))
STEPS = 50


def difference(history: History, max_offers: int, answers: Counter[str] | None = None) -> str | None:
    """How the core differs from the model, if it does: in a step of a history, or in what its journal folds to."""
    world = LineWorld(limits(max_offers))
    try:
        comparison = Comparison(world, max_offers)
        for step in history:
            answer = comparison.step(step)
            if answers is not None:
                answers[answer] += 1
    except AssertionError as failed:  # the core's own assertions too
        return repr(failed)
    return "; ".join(world.audit()) or None


@pytest.mark.parametrize("crowded", [False, True], ids=["few", "crowded"])
@pytest.mark.parametrize("max_offers", [1, 1_000])
def test_the_core_agrees_with_the_model(max_offers: int, crowded: bool) -> None:
    random, answers = Random(SEED), Counter[str]()
    for number in range(HISTORIES):
        history = draw_history(random, STEPS, max_offers=max_offers, crowded=crowded)
        if difference(history, max_offers, answers) is not None:
            short = shortened(history, lambda steps: difference(steps, max_offers) is not None)
            pytest.fail(
                f"history {number} of HOLDKIT_SEED={SEED}: {difference(short, max_offers)}\n{told(short)}",
                pytrace=False,
            )
    assert answers["done"] > 20 * HISTORIES
    assert answers["line_ahead"] > HISTORIES / 4


# Canaries


def serves_the_last_first(patch: pytest.MonkeyPatch) -> None:
    """Offers are made in the wrong order."""
    waiters = View.waiters

    def reverse(view: View, pool: Key) -> Iterator[StoredHold]:
        return reversed(list(waiters(view, pool)))

    patch.setattr(View, "waiters", reverse)


def offers_twice(patch: pytest.MonkeyPatch) -> None:
    """Each offer takes its units a second time, where there are enough."""
    offer = lines.offer

    def twice(view: View, pool: Any, hold: StoredHold, now: int) -> None:
        offer(view, pool, hold, now)
        left = view.pools.get(pool.key)
        if left is not None and left.available >= hold.legs[0].quantity:
            offer(view, left, hold, now)

    patch.setattr(lines, "offer", twice)


def forgets_the_tally(*modules: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """A change of units that leaves the account's tally as it was."""

    def breaks(patch: pytest.MonkeyPatch) -> None:
        for module in modules:
            patch.setattr(module, "counted", lambda _view, effect, *_, **__: effect)

    return breaks


def confirms_on_one_level(patch: pytest.MonkeyPatch) -> None:
    """A partial confirm does not move the ancestors."""
    effects_of = recording.effects_of

    def named_only(view: View, hold: StoredHold, *rest: Any) -> Any:
        named = {leg.pool for leg in hold.legs}
        partial = sum(rest[3]) < sum(leg.held for leg in hold.legs)
        effects = effects_of(view, hold, *rest)
        return tuple(effect for effect in effects if effect.pool.id in named or not partial)

    patch.setattr(ending, "effects_of", named_only)


def passes_the_line(module: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Whoever comes takes units that others wait for."""
    return lambda patch: patch.setattr(module, "somebody_waits", lambda *_: False)


def waits_behind_the_hopeless(patch: pytest.MonkeyPatch) -> None:
    """A waiter who asks for more than the total blocks everybody."""
    patch.setattr(placing, "somebody_waits", lambda _, pool: bool(pool.waiting))


def decides_before_it_offers(patch: pytest.MonkeyPatch) -> None:
    """Due legs go to whoever comes, not to the line."""
    patch.setattr(decide, "feed_first", lambda *_: True)


def offers_in_a_callers_transaction(patch: pytest.MonkeyPatch) -> None:
    """An offer's time begins before anybody can see it."""
    patch.setattr(Loaded, "may_offer", property(lambda _: True))


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "serves the last first": serves_the_last_first,
    "offers twice": offers_twice,
    "expires without the tally": forgets_the_tally(expiry),
    "joins without the tally": forgets_the_tally(lines),
    "forgets whose units are loose": forgets_the_tally(retiring),
    "confirms on one level": confirms_on_one_level,
    "a hold passes the line": passes_the_line(placing),
    "overage passes the line": passes_the_line(overage),
    "waits behind the hopeless": waits_behind_the_hopeless,
    "decides before it offers": decides_before_it_offers,
    "offers in a caller's transaction": offers_in_a_callers_transaction,
}


@pytest.mark.skipif(MUTATED, reason="it is broken already")
@pytest.mark.parametrize("name", BROKEN)
def test_canary_a_broken_core_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch)
    random = Random(SEED)
    found = (difference(draw_history(random, STEPS), 1) for _ in range(500))
    assert any(differs is not None for differs in found), (
        f"HOLDKIT_SEED={SEED}: 500 histories do not tell it from the model"
    )
