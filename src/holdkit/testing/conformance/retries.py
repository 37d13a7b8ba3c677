"""Checks of operation ids: one effect and one answer each, for as long as they are kept."""

from __future__ import annotations

from msgspec import structs

from ...core.commands import AnyCommand, ConfirmHold, CreatePool, Group, ReleaseHold, ResizePool, ReturnUnits
from ...core.outcomes import Done, Reason, Refusal
from .batches import word_of
from .harness import TOKEN, Harness, hold_id, placing, require, require_equal


def same_operation_same_answer(harness: Harness) -> None:
    """Same operation id, same payload: the recorded answer again, refusals and token included, and no second effect."""
    harness.pools(a=3)
    commands: tuple[AnyCommand, ...] = (
        placing(1, op="take", token="secret"),
        placing(2, quantity=9, op="too much"),
        ConfirmHold(id=hold_id(1), token="secret", op="keep"),
        ReturnUnits(id=hold_id(1), token="secret", op="back"),
        CreatePool(id="b", total=1, op="new"),
    )
    first = [harness.execute(command)[0] for command in commands]
    end = harness.rows()
    harness.at(7)
    for command, before in zip(commands, first, strict=True):
        (again,) = harness.execute(command)
        assert isinstance(before, Done | Refusal)
        require_equal(again, structs.replace(before, replayed=True), f"the answer to {command.op!r} again")
    require_equal(harness.rows(), end, "the journal after retries")
    require_equal((harness.pool().held, harness.pool().consumed), (0, 0), "held and consumed after retries")
    harness.verify()


def same_operation_other_payload(harness: Harness) -> None:
    """Same operation id, other payload: `operation_conflict`, no effect, and the first answer stays."""
    harness.pools(a=3)
    harness.done(placing(1, op="take"))
    harness.refused(placing(1, quantity=2, op="take"), Reason.OPERATION_CONFLICT)
    harness.refused(ReleaseHold(id=hold_id(1), token=TOKEN, op="take"), Reason.OPERATION_CONFLICT)
    require(harness.done(placing(1, op="take")).replayed, "a conflict took the place of the first answer")
    require_equal(harness.pool().held, 1, "units held")
    harness.verify()


def another_worker_retries(harness: Harness) -> None:
    """Actor and reason are no part of the payload: the recorded answer again, and the journal names the first actor."""
    harness.pools(a=3)
    commands: tuple[AnyCommand, ...] = (
        placing(1, op="take", token="secret"),
        ConfirmHold(id=hold_id(1), token="secret", op="keep"),
        ReturnUnits(id=hold_id(1), token="secret", op="back"),
        CreatePool(id="b", total=1, op="new"),
    )
    first = [harness.done(structs.replace(command, actor="user:1", reason="first")) for command in commands]
    end = harness.rows()
    for command, before in zip(commands, first, strict=True):
        again = harness.done(structs.replace(command, actor="job:retry", reason="again", correlation_id="c-9"))
        require_equal(
            again, structs.replace(before, replayed=True), f"the answer to {command.op!r}, asked by another worker"
        )
    require_equal(harness.rows(), end, "the journal after retries")
    harness.verify()


def retried_within_a_batch(harness: Harness) -> None:
    """An operation that is sent twice in one batch is applied once."""
    harness.pools(a=3)
    take = placing(1, op="take")
    applied = harness.apply(Group((take, take)), Group((take, placing(2, op="take"))))
    words = [word_of(outcome) for group in applied.outcomes for outcome in group]
    require_equal(words, ["done", "replayed", "replayed", Reason.OPERATION_CONFLICT], "answers within one batch")
    require_equal(harness.pool().held, 1, "units held")
    harness.verify()


def remembered_for_the_window(harness: Harness) -> None:
    """An operation is kept for `retry_window`; at age == window it is gone, and its id may be used again."""
    harness.open(retry_window=50)
    harness.pools(a=3)
    harness.done(placing(1, op="take"))
    harness.at(49)
    require(harness.done(placing(1, op="take")).replayed, "one slot before the window ends the answer must be there")
    harness.at(50)
    require(not harness.done(placing(2, op="take")).replayed, "at age == window the operation must be gone")
    harness.at(99)
    require(harness.done(placing(2, op="take")).replayed, "the window counts from the last use of the id")
    harness.verify()


def full_operation_table_never_refuses_an_end(harness: Harness) -> None:
    """A full operation table refuses new work, but never a confirm or a release; and their retries still work."""
    harness.open(max_operations=2)
    harness.pools(a=3)
    harness.done(placing(1, op="one"))
    harness.done(placing(2, op="two"))
    harness.refused(placing(3, op="three"), Reason.OPERATION_TABLE_FULL)
    for end in (ConfirmHold(id=hold_id(1), token=TOKEN, op="c"), ReleaseHold(id=hold_id(2), token=TOKEN, op="r")):
        require(not harness.done(end).replayed, "the first answer is no replay")
        require(harness.done(end).replayed, "the hold remembers the operation that ended it")
    require_equal((harness.pool().held, harness.pool().consumed), (0, 1), "held and consumed")
    harness.verify()


def aborted_is_remembered(harness: Harness) -> None:
    """The answer of an atomic group is kept, for each of its operations."""
    harness.pools(a=1)
    group = Group((placing(1, op="x"), placing(2, op="y")), atomic=True)
    words = [word_of(outcome) for outcome in harness.apply(group).outcomes[0]]
    require_equal(words, [Reason.ABORTED, Reason.INSUFFICIENT_CAPACITY], "answers of an aborted group")
    (again,) = harness.execute(placing(1, op="x"))
    require(
        isinstance(again, Refusal) and again.replayed, f"an aborted operation, asked again, must be replayed: {again}"
    )
    require_equal(harness.pool().held, 0, "units held")
    harness.verify()


def one_key_for_a_group(harness: Harness) -> None:
    """One operation id for a whole group: the same group is replayed, another group under it does nothing at all."""
    harness.pools(a=5, b=1)
    harness.done(placing(4, op="single"))
    pair = (placing(1, quantity=2), placing(2, quantity=9))
    words = [word_of(outcome) for outcome in harness.execute_under("k", *pair)]
    require_equal(words, ["done", Reason.INSUFFICIENT_CAPACITY], "answers of a guarded group")
    end = harness.rows()
    for again in harness.execute_under("k", *pair):
        require(isinstance(again, Done | Refusal) and again.replayed, f"the same group must be replayed, not {again}")
    for others, atomic in (((*pair, placing(3, "b")), False), ((placing(3, "b"),), False), (pair, True)):
        words = [word_of(outcome) for outcome in harness.execute_under("k", *others, atomic=atomic)]
        require_equal(words, [Reason.OPERATION_CONFLICT] * len(others), "answers to another group under the same key")
    harness.refused(placing(3, "b", op="k"), Reason.OPERATION_CONFLICT)
    require_equal(
        [word_of(one) for one in harness.execute_under("single", placing(3, "b"))],
        [Reason.OPERATION_CONFLICT],
        "a single call's key",
    )
    require_equal(harness.rows(), end, "the journal after retries and conflicts")
    require_equal((harness.pool().held, harness.pool("b").held), (3, 0), "units held")
    harness.verify()


def one_key_for_an_aborted_group(harness: Harness) -> None:
    """An atomic group that was refused under one operation id is refused again, though there are units by now."""
    harness.pools(a=1)
    pair = (placing(1), placing(2))
    aborted = [Reason.ABORTED, Reason.INSUFFICIENT_CAPACITY]
    require_equal(
        [word_of(one) for one in harness.execute_under("k", *pair, atomic=True)], aborted, "answers of an aborted group"
    )
    harness.done(ResizePool(id="a", total=9))
    again = harness.execute_under("k", *pair, atomic=True)
    require_equal([word_of(one) for one in again], aborted, "the answers again")
    require(all(isinstance(one, Refusal) and one.replayed for one in again), "they must be marked as replayed")
    require_equal(harness.pool().held, 0, "units held")
    harness.verify()


CHECKS = (same_operation_same_answer, same_operation_other_payload, another_worker_retries, retried_within_a_batch,
          remembered_for_the_window, full_operation_table_never_refuses_an_end, aborted_is_remembered, one_key_for_a_group,
          one_key_for_an_aborted_group)  # fmt: skip
