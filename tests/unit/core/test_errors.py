"""Every refusal has its exception, with the same name and fields."""

from __future__ import annotations

import pytest

from holdkit import errors
from holdkit.core.outcomes import TRANSIENT, Reason

LADDER = [
    "operation_conflict",
    "operation_table_full",
    "pool_exists",
    "slot_overflow",
    "deadline_passed",
    "lifetime_exceeded",
    "pool_not_found",
    "pool_archived",
    "window_closed",
    "account_required",
    "pool_in_use",
    "below_in_use",
    "hold_exists",
    "pool_table_full",
    "line_full",
    "hold_table_full",
    "hold_not_found",
    "hold_retired",
    "not_owner",
    "hold_waiting",
    "already_confirmed",
    "already_released",
    "hold_expired",
    "not_due",
    "not_confirmed",
    "quantity_exceeds_hold",
    "quantity_exceeds_consumed",
    "account_limit",
    "insufficient_capacity",
    "line_ahead",
    "version_conflict",
    "aborted",
]


def test_the_words_are_stable_and_in_the_order_of_the_ladders() -> None:
    assert [reason.value for reason in Reason] == LADDER
    assert {reason.value for reason in TRANSIENT} == {
        "operation_table_full",
        "pool_table_full",
        "line_full",
        "hold_table_full",
        "hold_waiting",
        "insufficient_capacity",
        "line_ahead",
        "aborted",
    }


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_its_exception(reason: Reason) -> None:
    name = "".join(word.capitalize() for word in reason.value.split("_"))
    exception = getattr(errors, name)
    assert issubclass(exception, errors.Refused)
    assert exception.reason == reason.value
    assert exception.transient is (reason in TRANSIENT)
    assert exception.__doc__


def test_no_exception_without_a_reason() -> None:
    """But those of the faces, which are no rung of the core."""
    of_faces = {"already_claimed", "items_taken", "part_of_hold", "section_not_found"}
    assert set(errors.REFUSALS) == {reason.value for reason in Reason} | of_faces


def test_a_refusal_carries_what_its_class_declares_and_nothing_else() -> None:
    taken = errors.AlreadyClaimed("taken", claim="c", state="held", subject="k")
    assert taken.details == {"claim": "c", "state": "held", "subject": "k"}
    assert (taken.claim, taken.remaining, taken.found) == ("c", None, None)
    taken.remaining = 3.5
    assert taken.details == {"claim": "c", "state": "held", "subject": "k", "remaining": 3.5}
    with pytest.raises(TypeError, match="PoolExists declares no attribute 'claim'"):
        errors.PoolExists("there", claim="c", subject="p")
    assert not hasattr(errors.PoolExists("there"), "claim")
