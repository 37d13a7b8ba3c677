# Generated from ../_async/calls.py by tools/gen_sync.py: do not edit.
"""Calls: what every call may carry, and batches of commands. Context is captured here, at submission."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeAlias, TypedDict
from uuid import UUID

from msgspec.structs import replace

from ...core.commands import AnyCommand, Command, Group
from ...core.model import Limits
from ...core.validation import check, invalid, pool_id, text
from ...core.values import MAX_OP
from ...errors import InvalidRequest
from ..answers import Answer
from ..context import Actor, actor_text, correlation_text, current
from ..guarding import guarded, op_within
from ..normalise import combined, normalise
from ..queued_calls import MAX_LEGS, legs_in
from .executor import Executor


class Call(TypedDict, total=False):
    """What every call may carry."""

    op: str | None
    """Operation id: the caller's retry key."""
    actor: Actor | str | None
    correlation_id: str | UUID | None
    reason: str | None
    tx: Any
    """The caller's own connection, inside the caller's own transaction."""


Frame: TypeAlias = Callable[[Call], dict[str, Any]]
"""Gives the fields that every command has, from the call or from the context."""

KNOWN = "op, actor, correlation_id, reason, tx"
_KNOWN = frozenset(KNOWN.split(", "))


def framed(call: Call, tenant: str) -> dict[str, Any]:
    """The fields every command has, from the call or from the context."""
    if not _KNOWN.issuperset(call):
        unknown = min(set(call) - _KNOWN)
        raise invalid(unknown, "argument_unknown", f"is not an argument of this call; any call takes {KNOWN}")
    around = current()
    actor, correlation_id, reason = call.get("actor"), call.get("correlation_id"), call.get("reason")
    return {
        "tenant": tenant,
        "op": call.get("op"),
        "actor": around.actor if actor is None else actor_text(actor),
        "correlation_id": around.correlation_id if correlation_id is None else correlation_text(correlation_id),
        "reason": around.reason if reason is None else reason,
    }


class Calls:
    """Speaks for one tenant."""

    def __init__(self, executor: Executor, tenant: str = "") -> None:
        self._executor, self._tenant = executor, tenant
        if tenant:
            text(tenant, "tenant", 64)

    @property
    def _limits(self) -> Limits:
        return self._executor.limits

    def _frame(self, call: Call) -> dict[str, Any]:
        """The fields every command has, from the call or from the context."""
        return framed(call, self._tenant)

    def apply(
        self, commands: Iterable[AnyCommand], *, atomic: bool = False, op: str | None = None, tx: Any = None
    ) -> list[Answer]:
        """Decide several commands in one transaction, in order. Outcomes come back as values; no refusal is raised.

        A refused command has no effect and the others stand; with `atomic=True` all of them are applied or none, and
        the others answer `Aborted`. A malformed command raises `InvalidRequest` and nothing at all is done.

        Legs may be a face's: what `hk.claims.key`, `hk.items.legs` and `units` of a budget give.

        `op` is one retry key for all of them: used before for another batch, every answer is `OperationConflict`.
        """
        group = self._group(commands, atomic, op)
        if not group.commands:
            return []
        return self._executor.answers(group, self._executor.submit(group, tx))

    def lock(self, pools: Iterable[str] = (), *, tx: Any) -> None:
        """Lock these pools in the caller's transaction, before several calls with `tx=`; those that are missing are passed
        over. (SQLite has one write lock for all pools: there it is taken early.)"""
        names: object = (pools,) if isinstance(pools, str) else pools
        if not isinstance(names, list | tuple | set | frozenset):
            raise invalid("pools", "pools_malformed", "must be a list of pool ids")
        for name in names:
            pool_id(name, "pools", faces=True)
        if tx is None:
            raise invalid("tx", "tx_required", "there is nothing to lock outside of a transaction")
        self._executor.lock(tx, [(self._tenant, name) for name in names])

    def _group(self, commands: Iterable[AnyCommand], atomic: bool, op: str | None) -> Group:
        limits, asked = self._limits, commands
        if isinstance(asked, Iterable):
            asked = [*islice(asked, limits.max_batch + 1)]  # one too many is enough to be refused
        try:
            ready = prepared(asked, atomic, self._tenant, limits, op)
        except InvalidRequest as error:
            if not self._executor.limits_changed(error):
                raise
            limits = self._limits
            ready = prepared(asked, atomic, self._tenant, limits, op)
        return guarded(self._executor.mint.prepare_all(ready), atomic, op, limits.version)


def prepared(
    commands: Iterable[AnyCommand], atomic: bool, tenant: str, limits: Limits, op: str | None = None
) -> list[AnyCommand]:
    """The commands of a batch: normalised, framed by the context, each under its part of the batch's key, checked."""
    asked: object = commands
    if not isinstance(asked, Iterable):
        raise invalid("commands", "commands_malformed", "must be a list of commands such as PlaceHold(...)")
    if type(atomic) is not bool:
        raise invalid("atomic", "atomic_not_boolean", "must be True or False")
    if op is not None:
        text(op, "op", MAX_OP)
    given = framed({}, tenant)
    frame = {name: given[name] for name in ("actor", "correlation_id", "reason") if given[name] is not None}
    ready: list[AnyCommand] = []
    for command in commands:
        if len(ready) == limits.max_batch:
            raise invalid("commands", "batch_too_large", f"at most {limits.max_batch} commands are allowed")
        ready.append(_prepared(command, frame, tenant, op, len(ready)))
        check(ready[-1], limits, faces=combined(ready[-1]))
    if legs_in(ready) > MAX_LEGS:
        raise invalid("commands", "batch_too_large", f"at most {MAX_LEGS} legs are allowed, of all commands together")
    return ready


def _prepared(command: AnyCommand, frame: dict[str, Any], tenant: str, op: str | None, index: int) -> AnyCommand:
    """One command of a batch: what it leaves open is taken from the context; the tenant is never its own choice."""
    given: object = command
    if not isinstance(given, Command):
        kinds = "PlaceHold, ConfirmHold, ReleaseHold, …"
        raise invalid("commands", "command_unknown", f"{type(given).__name__} is not a command: {kinds}")
    if command.tenant not in ("", tenant):
        raise invalid("tenant", "tenant_foreign", "a kernel speaks for its own tenant: use hk.tenant(…)")
    changes: dict[str, Any] = {} if command.tenant == tenant else {"tenant": tenant}
    if command.actor is not None:
        changes["actor"] = actor_text(command.actor)
    if isinstance(command.correlation_id, UUID):
        changes["correlation_id"] = correlation_text(command.correlation_id)
    if op is not None:
        changes["op"] = op_within(op, index, command.op)
    if frame:
        changes |= {name: value for name, value in frame.items() if getattr(command, name) is None}
    return normalise(replace(command, **changes) if changes else command)
