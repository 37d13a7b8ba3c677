"""Checks of operation ids: one effect and one answer each, for as long as they are remembered."""

from __future__ import annotations

from msgspec import structs

from ...core.commands import AnyCommand, ConfirmHold, CreatePool, Group, ReleaseHold, ResizePool, ReturnUnits
from ...core.outcomes import Done, Reason, Refusal
from .batches import said
from .harness import TOKEN, Rig, demand, equal, hold_id, placing


def same_operation_same_answer(rig: Rig) -> None:
    """Same operation id, same payload: the recorded answer again, refusals and token included, and nothing twice."""
    rig.pools(a=3)
    commands: tuple[AnyCommand, ...] = (
        placing(1, op="take", owner="secret"),
        placing(2, quantity=9, op="too much"),
        ConfirmHold(id=hold_id(1), owner="secret", op="keep"),
        ReturnUnits(id=hold_id(1), owner="secret", op="back"),
        CreatePool(id="b", total=1, op="new"),
    )
    first = [rig.do(command)[0] for command in commands]
    end = rig.rows()
    rig.at(7)
    for command, before in zip(commands, first, strict=True):
        (again,) = rig.do(command)
        assert isinstance(before, Done | Refusal)
        equal(again, structs.replace(before, replayed=True), f"the answer to {command.op!r} again")
    equal(rig.rows(), end, "the journal after retries")
    equal((rig.pool().held, rig.pool().consumed), (0, 0), "held and consumed after retries")
    rig.sound()


def same_operation_other_payload(rig: Rig) -> None:
    """Same operation id, other payload: `operation_conflict`, no effect, and the first answer stays what it was."""
    rig.pools(a=3)
    rig.done(placing(1, op="take"))
    rig.refused(placing(1, quantity=2, op="take"), Reason.OPERATION_CONFLICT)
    rig.refused(ReleaseHold(id=hold_id(1), owner=TOKEN, op="take"), Reason.OPERATION_CONFLICT)
    demand(rig.done(placing(1, op="take")).replayed, "a conflict took the place of the first answer")
    equal(rig.pool().held, 1, "units held")
    rig.sound()


def another_worker_asks_again(rig: Rig) -> None:
    """Who asks and why is no part of the payload: the recorded answer again, and the journal names the one who was first."""
    rig.pools(a=3)
    commands: tuple[AnyCommand, ...] = (
        placing(1, op="take", owner="secret"),
        ConfirmHold(id=hold_id(1), owner="secret", op="keep"),
        ReturnUnits(id=hold_id(1), owner="secret", op="back"),
        CreatePool(id="b", total=1, op="new"),
    )
    first = [rig.done(structs.replace(command, actor="user:1", reason="first")) for command in commands]
    end = rig.rows()
    for command, before in zip(commands, first, strict=True):
        again = rig.done(structs.replace(command, actor="job:retry", reason="again", correlation_id="c-9"))
        equal(again, structs.replace(before, replayed=True), f"the answer to {command.op!r}, asked by another worker")
    equal(rig.rows(), end, "the journal after retries")
    rig.sound()


def retried_within_a_batch(rig: Rig) -> None:
    """An operation asked twice in one batch is applied once."""
    rig.pools(a=3)
    take = placing(1, op="take")
    applied = rig.apply(Group((take, take)), Group((take, placing(2, op="take"))))
    words = [said(outcome) for group in applied.outcomes for outcome in group]
    equal(words, ["done", "replayed", "replayed", Reason.OPERATION_CONFLICT], "answers within one batch")
    equal(rig.pool().held, 1, "units held")
    rig.sound()


def remembered_for_the_window(rig: Rig) -> None:
    """An operation is remembered for `retry_window`; at age == window it is gone, and its id may be used anew."""
    rig.open(retry_window=50)
    rig.pools(a=3)
    rig.done(placing(1, op="take"))
    rig.at(49)
    demand(rig.done(placing(1, op="take")).replayed, "one slot before the window ends the answer must be there")
    rig.at(50)
    demand(not rig.done(placing(2, op="take")).replayed, "at age == window the operation must be gone")
    rig.at(99)
    demand(rig.done(placing(2, op="take")).replayed, "the window counts from the last use of the id")
    rig.sound()


def full_table_never_stops_an_end(rig: Rig) -> None:
    """A full operation table refuses new work, but never a confirm or a release; and their retries still work."""
    rig.open(max_operations=2)
    rig.pools(a=3)
    rig.done(placing(1, op="one"))
    rig.done(placing(2, op="two"))
    rig.refused(placing(3, op="three"), Reason.OPERATION_TABLE_FULL)
    for end in (ConfirmHold(id=hold_id(1), owner=TOKEN, op="c"), ReleaseHold(id=hold_id(2), owner=TOKEN, op="r")):
        demand(not rig.done(end).replayed, "the first answer is no replay")
        demand(rig.done(end).replayed, "the hold remembers the operation that ended it")
    equal((rig.pool().held, rig.pool().consumed), (0, 1), "held and consumed")
    rig.sound()


def aborted_is_remembered(rig: Rig) -> None:
    """What an atomic group answered is remembered, for each of its operations."""
    rig.pools(a=1)
    group = Group((placing(1, op="x"), placing(2, op="y")), atomic=True)
    words = [said(outcome) for outcome in rig.apply(group).outcomes[0]]
    equal(words, [Reason.ABORTED, Reason.INSUFFICIENT_CAPACITY], "answers of an aborted group")
    (again,) = rig.do(placing(1, op="x"))
    demand(
        isinstance(again, Refusal) and again.replayed, f"an aborted operation, asked again, must be replayed: {again}"
    )
    equal(rig.pool().held, 0, "units held")
    rig.sound()


def one_key_for_a_group(rig: Rig) -> None:
    """One operation id for a whole group: the same group is replayed, another one under it does nothing at all."""
    rig.pools(a=5, b=1)
    rig.done(placing(4, op="single"))
    pair = (placing(1, quantity=2), placing(2, quantity=9))
    words = [said(outcome) for outcome in rig.under("k", *pair)]
    equal(words, ["done", Reason.INSUFFICIENT_CAPACITY], "answers of a guarded group")
    end = rig.rows()
    for again in rig.under("k", *pair):
        demand(isinstance(again, Done | Refusal) and again.replayed, f"the same group must be replayed, not {again}")
    for others, atomic in (((*pair, placing(3, "b")), False), ((placing(3, "b"),), False), (pair, True)):
        words = [said(outcome) for outcome in rig.under("k", *others, atomic=atomic)]
        equal(words, [Reason.OPERATION_CONFLICT] * len(others), "answers to another group under the same key")
    rig.refused(placing(3, "b", op="k"), Reason.OPERATION_CONFLICT)
    equal(
        [said(one) for one in rig.under("single", placing(3, "b"))], [Reason.OPERATION_CONFLICT], "a single call's key"
    )
    equal(rig.rows(), end, "the journal after retries and conflicts")
    equal((rig.pool().held, rig.pool("b").held), (3, 0), "units held")
    rig.sound()


def one_key_for_an_aborted_group(rig: Rig) -> None:
    """What an atomic group under one operation id was refused, it is refused again, though there is room by now."""
    rig.pools(a=1)
    pair = (placing(1), placing(2))
    aborted = [Reason.ABORTED, Reason.INSUFFICIENT_CAPACITY]
    equal([said(one) for one in rig.under("k", *pair, atomic=True)], aborted, "answers of an aborted group")
    rig.done(ResizePool(id="a", total=9))
    again = rig.under("k", *pair, atomic=True)
    equal([said(one) for one in again], aborted, "the answers again")
    demand(all(isinstance(one, Refusal) and one.replayed for one in again), "they must be marked as replayed")
    equal(rig.pool().held, 0, "units held")
    rig.sound()


CHECKS = (same_operation_same_answer, same_operation_other_payload, another_worker_asks_again, retried_within_a_batch,
          remembered_for_the_window, full_table_never_stops_an_end, aborted_is_remembered, one_key_for_a_group,
          one_key_for_an_aborted_group)  # fmt: skip
