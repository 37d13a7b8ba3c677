"""Every refusal has its exception, with the same name and fields."""

from __future__ import annotations

import pickle
import re
from enum import StrEnum

import pytest

import holdkit
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


FAMILIES = {
    "Unavailable": "insufficient_capacity already_claimed items_taken line_ahead line_full account_limit pool_archived window_closed",
    "HoldEnded": "hold_expired already_confirmed already_released hold_retired",
    "NotFound": "pool_not_found hold_not_found section_not_found",
    "AlreadyExists": "pool_exists hold_exists",
    "TableFull": "pool_table_full hold_table_full operation_table_full",
    "InsufficientCapacity": "insufficient_capacity already_claimed items_taken",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    cls = getattr(errors, family)
    assert {reason for reason, refusal in errors.REFUSALS.items() if issubclass(refusal, cls)} == set(
        FAMILIES[family].split()
    )


def test_a_family_has_no_reason_of_its_own() -> None:
    assert "refused" not in errors.REFUSALS
    assert [errors.Unavailable.reason, errors.TableFull.reason] == ["refused", "refused"]


@pytest.mark.parametrize("cls", errors.REFUSALS.values(), ids=errors.REFUSALS)
def test_a_title_may_be_shown_to_a_customer(cls: type[errors.Refused]) -> None:
    """It is a refusal's own, short, and names neither ids nor numbers nor words of developers."""
    assert "title" in vars(cls)
    assert re.fullmatch(r"[A-Z][A-Za-z ,]{4,44}", cls.title)
    assert not re.search(r"\b(pool|hold|token|operation|ttl|units|slot|leg)s?\b", cls.title.lower())


def test_a_misspelt_keyword_is_an_invalid_request_and_a_type_error() -> None:
    hk = holdkit.connect("memory://")
    with pytest.raises(TypeError) as unknown:
        hk.create_pool("p", 1, acter="me")  # type: ignore[call-arg]
    assert isinstance(unknown.value, holdkit.errors.UnknownArgument)
    assert isinstance(unknown.value, holdkit.InvalidRequest)
    assert (unknown.value.field, unknown.value.code) == ("acter", "argument_unknown")
    assert type(pickle.loads(pickle.dumps(unknown.value))) is holdkit.errors.UnknownArgument


@pytest.mark.parametrize(
    "enum", [holdkit.State, holdkit.journal.Action, holdkit.reports.Reason, holdkit.sagas.Phase, holdkit.ReleaseReason]
)
def test_the_words_print_as_their_text(enum: type[StrEnum]) -> None:
    assert repr(list(enum)) == repr([str(word) for word in enum])


def test_titles_of_errors() -> None:
    assert errors.InvalidRequest("no", field="ttl", code="ttl_malformed").title == "The request is not valid"
    cut = errors.InvalidRequest("cut short", field="hold", code="ticket_malformed")
    assert cut.title == pickle.loads(pickle.dumps(cut)).title == "The link is incomplete"
    assert errors.OutcomeUnknown("lost").title == errors.Overloaded("full").title == "Please try again in a moment"


def test_a_face_says_how_much_there_is_as_any_refusal_for_want_of_capacity() -> None:
    taken = errors.AlreadyClaimed("taken", claim="c", state="held", subject="k")
    gone = errors.ItemsTaken("gone", taken=("42/A1",), holders={}, subject="42/A1")
    for refusal in (taken, gone):
        assert isinstance(refusal, errors.InsufficientCapacity)
        assert (refusal.requested, refusal.available, refusal.total, refusal.shortfalls) == (1, 0, 1, ())


def test_a_refusal_carries_what_its_class_declares_and_nothing_else() -> None:
    taken = errors.AlreadyClaimed("taken", claim="c", state="held", subject="k")
    assert taken.details == {"claim": "c", "state": "held", "subject": "k"}
    assert (taken.claim, taken.remaining) == ("c", None)
    taken.remaining = 3.5
    assert taken.details == {"claim": "c", "state": "held", "subject": "k", "remaining": 3.5}
    with pytest.raises(TypeError, match="PoolExists declares no attribute 'claim'"):
        errors.PoolExists("there", claim="c", subject="p")
    assert not hasattr(errors.PoolExists("there"), "claim")
