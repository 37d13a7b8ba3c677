"""The desk: where a call becomes a checked command, is submitted, and its outcome becomes an answer or an exception."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from msgspec.structs import replace

from ...core.commands import AnyCommand, Command, Group, PlaceHold, ReleaseHold
from ...core.outcomes import Done, Outcome, Refusal
from ...core.validation import check, invalid, text
from ...errors import InvalidRequest
from ..context import Actor, actor_text, current
from ..minting import Mint
from ..spelling import normalise
from ..surface import Answer, Hold, answer_of, hold_of, refusal_of
from ..waiters import AsyncSubmitter


class Call(TypedDict, total=False):
    """What every call may carry."""

    op: str | None
    """Operation id: the caller's retry key."""
    actor: Actor | str | None
    correlation_id: str | None
    reason: str | None
    tx: Any
    """The caller's own connection, inside the caller's own transaction."""


_KNOWN = frozenset({"op", "actor", "correlation_id", "reason", "tx"})


class AsyncDesk:
    """Submits commands of one tenant."""

    def __init__(self, submitter: AsyncSubmitter, mint: Mint, tenant: str = "") -> None:
        self._submitter, self._mint, self._tenant = submitter, mint, tenant
        self._limits = submitter.engine.limits
        if tenant:
            text(tenant, "tenant", 64)

    def _frame(self, call: Call) -> dict[str, Any]:
        """The fields every command has, from the call or from the context."""
        if not _KNOWN.issuperset(call):
            unknown = ", ".join(sorted(set(call) - _KNOWN))
            raise invalid(unknown, "argument_unknown", "is not an argument of this call")
        around = current()
        actor, correlation_id, reason = call.get("actor"), call.get("correlation_id"), call.get("reason")
        return {
            "tenant": self._tenant,
            "op": call.get("op"),
            "actor": around.actor if actor is None else actor_text(actor),
            "correlation_id": around.correlation_id if correlation_id is None else correlation_id,
            "reason": around.reason if reason is None else reason,
        }

    async def _do(self, command: AnyCommand, tx: Any = None, *, faces: bool = False) -> Done:
        """Submit one command; a refusal is raised."""
        check(command, self._limits, faces=faces)
        (outcome,) = await self._send(Group((self._mint.prepare(command),)), tx)
        return self._done(outcome)

    async def _send(self, group: Group, tx: Any) -> list[Outcome]:
        if tx is None:
            return await self._submitter.submit(group)
        return await self._submitter.apply_in(tx, group)

    def _done(self, outcome: Outcome) -> Done:
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Refusal):
            raise refusal_of(outcome)
        raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)

    async def _do_hold(self, command: AnyCommand, owner: str | None, tx: Any = None) -> Hold:
        """Submit one command about a hold, and answer with the hold."""
        return hold_of(await self._do(command, tx), owner)

    async def grant(self, command: PlaceHold) -> Hold:
        """Place a hold for a block; one that is granted to a cancelled caller is released again."""
        check(command, self._limits)
        (outcome,) = await self._submitter.submit(Group((self._mint.prepare(command),)), undo_grant)
        return hold_of(self._done(outcome), None)

    async def apply(self, commands: Iterable[AnyCommand], *, atomic: bool = False, tx: Any = None) -> list[Answer]:
        """Decide several commands in one transaction, in order. Outcomes come back as values; no refusal is raised.

        A refused command has no effect and the others stand; with `atomic=True` all of them are applied or none, and
        the others answer `Aborted`. A malformed command raises `InvalidRequest` and nothing at all is done.
        """
        group = self._group(commands, atomic)
        if not group.commands:
            return []
        outcomes = await self._send(group, tx)
        return [answer_of(command, outcome) for command, outcome in zip(group.commands, outcomes, strict=True)]

    def _group(self, commands: Iterable[AnyCommand], atomic: bool) -> Group:
        """Checked, framed by the context, minted."""
        frame = self._frame({})
        prepared: list[AnyCommand] = []
        for command in commands:
            if len(prepared) == self._limits.max_batch:
                raise invalid("commands", "batch_too_large", f"at most {self._limits.max_batch} commands are allowed")
            prepared.append(self._prepared(command, frame))
        return Group(tuple(prepared), bool(atomic))

    def _prepared(self, command: AnyCommand, frame: dict[str, Any]) -> AnyCommand:
        """One command of a batch: what it leaves open is taken from the context; the tenant is never its own choice."""
        if not isinstance(command, Command):
            raise invalid("commands", "command_unknown", f"{type(command).__name__} is not a command")
        if command.tenant not in ("", self._tenant):
            raise invalid("tenant", "tenant_foreign", "a kernel speaks for its own tenant: use hk.tenant(…)")
        changes: dict[str, Any] = {} if command.tenant == self._tenant else {"tenant": self._tenant}
        for name in ("actor", "correlation_id", "reason"):
            if getattr(command, name) is None and frame[name] is not None:
                changes[name] = frame[name]
        command = normalise(replace(command, **changes) if changes else command)
        if command.actor is not None:
            actor_text(command.actor)
        check(command, self._limits)
        return self._mint.prepare(command)


def undo_grant(outcomes: list[Outcome]) -> Group | None:
    """What takes back a grant that nobody received."""
    (outcome,) = outcomes
    if not isinstance(outcome, Done) or outcome.hold is None:
        return None
    hold = outcome.hold
    return Group((ReleaseHold(id=hold.id, tenant=hold.tenant, owner=outcome.token, reason="cancelled"),))
