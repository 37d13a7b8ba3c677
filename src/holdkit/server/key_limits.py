"""What a limited API key may do: only with some pools, only some verbs.

Theory of operation
-------------------

A key may be limited to prefixes of pool ids, and to verbs, within its scope. `RULES` has one rule for each kind of request that a
limited key may make at all: the verb that it needs, and how the pools are found that it touches. A kind without a rule is
refused, so a new operation is closed to limited keys until it gets a rule.

The first check runs with those of the key and its scope, the second before the handler, on the decoded request. A request that names an existing hold touches the pools of its legs;
they are read from the hold, which is safe because the pools of a hold never change. Lists are not refused but narrowed: of holds and of
an account's usage by the key's executor, of pools by their handler. A key that is limited to pools is refused everything that shows all
pools of the tenant (its journal, its events, the overview, the history of a pool, whose holds may have other legs), and claims, items,
budgets and windows, whose pools are reserved.

A hold also takes units of the pools above those that it names, which the key may perhaps not read. So three kinds of answers lose here what
they tell of such pools: a pool (what it can grant depends on those above), an entry of a hold's history, and an error. Two things remain,
because a hold is worth nothing without them: whether it is granted, and its fence, which grows with every grant in the tree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct, structs

from ..core.commands import COMMANDS
from ..core.entries import Action
from ..core.model import HeldLeg, Pool
from ..core.pages import disjoint
from ..core.trees import ancestors
from ..errors import HoldNotFound, Overloaded, Refused
from ..kernel.answers import OF_POOLS, without_hidden_pools
from ..kernel.arguments import hold_id, reference
from ..wire.batches import Batch, BatchJoin
from ..wire.holds import LegBody
from ..wire.journal import EntryAnswer, RefusedAnswer
from ..wire.problems import Problem
from .keys import VERBS, StoredKey
from .request import Request


class KeyLimit:
    """The limit of one API key."""

    def __init__(self, key: StoredKey) -> None:
        self.pools, self.verbs = key.pools, frozenset(key.verbs)

    def check_verb(self, verb: str) -> None:
        """Refuse a verb that the key does not have."""
        if self.verbs and verb not in self.verbs:
            raise Problem(403, "key_limited", f"this API key is limited to the verbs {', '.join(sorted(self.verbs))}")

    def check_pools(self, pools: Iterable[str | None]) -> None:
        """Refuse a pool outside the key's prefixes. None stands for a resource that is no pool of the tenant's own, such as a claim's key."""
        if self.pools and not all(pool is not None and pool.startswith(self.pools) for pool in pools):
            raise _outside(self)

    def covers(self, legs: Iterable[HeldLeg]) -> bool:
        """Return whether all legs of a hold are within the key's prefixes."""
        return not self.pools or all(leg.pool.startswith(self.pools) for leg in legs)

    def covers_pool(self, pool: str) -> bool:
        """Return whether a pool is within the key's prefixes."""
        return not self.pools or pool.startswith(self.pools)

    def narrowed(self, prefix: str) -> tuple[str, ...]:
        """Return the prefixes, in order and apart from one another, of the pools that begin with `prefix` and are within the limit."""
        if not self.pools or prefix.startswith(self.pools):
            return (prefix,)
        return disjoint(one for one in self.pools if one.startswith(prefix))

    def pool(self, pool: Pool) -> Pool:
        """Return the pool as the key may see it: what it can grant without the pools above, if the key may not read them."""
        hidden = pool.least is not None and not all(map(self.covers_pool, ancestors(pool.id)))
        return structs.replace(pool, least=None) if hidden else pool

    def entries(self, entries: Iterable[EntryAnswer]) -> list[EntryAnswer]:
        """Return entries of a hold's history as the key may see them, without those about other pools alone."""
        if not self.pools:
            return [*entries]
        return [
            self._entry(entry) for entry in entries if entry.action != Action.LEG_RETURNED or self._reads_some(entry)
        ]

    def _reads_some(self, entry: EntryAnswer) -> bool:
        return any(self.covers_pool(effect.pool.id) for effect in entry.pools)

    def _entry(self, entry: EntryAnswer) -> EntryAnswer:
        pools = [effect for effect in entry.pools if self.covers_pool(effect.pool.id)]
        above = [level for level in entry.after.get("above", ()) if self.covers_pool(level["pool"])]
        after = {name: value for name, value in entry.after.items() if name != "above"} | (
            {"above": above} if above else {}
        )
        return structs.replace(entry, pools=pools, after=after, refused=self._refused(entry.refused))

    def _refused(self, refused: RefusedAnswer | None) -> RefusedAnswer | None:
        if refused is None or refused.reason not in OF_POOLS:
            return refused
        legs = [leg for leg in refused.legs if self.covers_pool(leg.pool)]
        if refused.subject is None or self.covers_pool(refused.subject):
            return structs.replace(refused, legs=legs)
        return structs.replace(refused, legs=legs, subject=None, found=None)

    def refusal(self, refused: Refused) -> Refused:
        """Return the refusal as the key may see it."""
        return without_hidden_pools(refused, self.covers_pool) if self.pools else refused

    def error(self, error: Exception) -> Exception:
        """Return the error as the key may see it."""
        if not self.pools:
            return error
        if isinstance(error, Refused):
            return self.refusal(error)
        if isinstance(error, Overloaded):  # it may name what is locked
            detail = "what the request needs is in use by others: try again a little later"
            return Overloaded(detail, retry_after=error.retry_after)
        if isinstance(error, Problem) and error.reason == "storage_quota_exceeded":
            detail = "the tenant has stored as much as it may: ask who runs it"
            return Problem(error.status, error.reason, detail, what=error.more["what"])
        return error

    def admit(self, kind: str) -> None:
        """Refuse kinds of requests that the key may not make at all."""
        rule = RULES.get(kind)
        if rule is None:
            raise Problem(403, "key_limited", "this needs an API key without a limit to pools or verbs")
        if rule.verb:
            self.check_verb(rule.verb)
        if self.pools and rule.check is None and not rule.narrowed:
            raise Problem(
                403, "key_limited", "this covers all pools, or reserved ones, and the API key is limited to some"
            )

    async def check(self, request: Request) -> None:
        """Refuse an admitted request that touches more than the key may touch."""
        check = RULES[request.operation.name].check
        if check is not None:
            await check(self, request)


def _outside(limit: KeyLimit) -> Problem:
    return Problem(403, "key_limited", f"this API key is limited to pools that begin with {' or '.join(limit.pools)}")


Check: TypeAlias = Callable[[KeyLimit, Request], Awaitable[None]]


class Rule(Struct, frozen=True):
    """The needs of one kind of request."""

    verb: str
    """Empty: none, or each of its commands has a verb of its own."""
    check: Check | None = None
    """Checks the pools that it touches. None: it is refused to a key that is limited to pools, unless `narrowed`."""
    narrowed: bool = False
    """Its answer has only what the key may see."""


async def _named_pool(limit: KeyLimit, request: Request) -> None:
    limit.check_pools(request.names)


async def _new_pool(limit: KeyLimit, request: Request) -> None:
    limit.check_pools([request.body.id])


async def _listed_pools(limit: KeyLimit, request: Request) -> None:
    limit.check_pools(request.body.pools)


async def _named_hold(limit: KeyLimit, request: Request) -> None:
    await _check_holds(limit, request, [request.hold_named])


async def _taken(limit: KeyLimit, request: Request) -> None:
    _check_legs(limit, request.body)


async def _each_command(limit: KeyLimit, request: Request) -> None:
    batch: Batch = request.body
    holds: list[str] = []
    placed: set[str] = set()
    for command in batch.commands:
        verb = str(command.__struct_config__.tag)
        limit.check_verb(verb)
        names = COMMANDS[verb].names
        if isinstance(command, BatchJoin):
            limit.check_pools([command.pool])
        elif names == "legs":
            _check_legs(limit, command)
        elif names == "pool":
            limit.check_pools([command.id])
        else:
            holds.append(command.id or "")
        if names == "legs":
            placed.add(command.id or "")
    await _check_holds(limit, request, holds, placed)


async def _windows(limit: KeyLimit, request: Request) -> None:
    for command in request.body.commands:
        limit.check_verb(str(command.__struct_config__.tag))
    limit.check_pools([None])


def _check_legs(limit: KeyLimit, taking: Any) -> None:
    """Refuse legs on pools outside the limit. Creating pools needs a verb of its own."""
    legs: list[LegBody] = taking.legs or []
    limit.check_pools([taking.pool] if taking.legs is None else [leg.pool for leg in legs])
    if any(leg.create_with_total is not None for leg in legs):
        limit.check_verb("create_pool")


async def _check_holds(limit: KeyLimit, request: Request, names: list[str], placed: Iterable[str] = ()) -> None:
    """Refuse holds with a leg outside the limit. Refuse an unknown hold too, because a retry could get the answer that was recorded
    for it; unless the batch itself places it, within the limit."""
    if not limit.pools:
        return
    new = {hold_id(name) for name in placed if name}
    for name in dict.fromkeys(reference(name, None)[0] for name in names):
        hold = await request.kernel._executor.find_hold((request.caller.tenant, name))
        if hold is None and name not in new:
            raise HoldNotFound("there is no hold with this id, or it is no longer kept", subject=name)
        if hold is not None and not limit.covers(hold.legs):
            raise _outside(limit)


RULES: Final[dict[str, Rule]] = {
    "whoami": Rule("", narrowed=True),
    "list_pools": Rule("read", narrowed=True),
    **dict.fromkeys(("show_pool", "list_children", "list_line"), Rule("read", _named_pool)),
    "pool_history": Rule("read"),
    "pool_histories": Rule("read", _listed_pools),
    **dict.fromkeys(("list_holds", "search"), Rule("read", narrowed=True)),
    **dict.fromkeys(("list_entities", "list_accounts"), Rule("read")),
    **dict.fromkeys(("show_hold", "show_place", "place_events"), Rule("read", _named_hold)),
    "account_usage": Rule("read", narrowed=True),
    "hold_history": Rule("read", _named_hold),
    "create_pool": Rule("create_pool", _new_pool),
    **{verb: Rule(verb, _named_pool) for verb, scope in VERBS.items() if scope == "admin" and verb != "create_pool"},
    **{verb: Rule(verb, _taken) for verb in ("hold", "consume")},
    "join": Rule("join", _named_pool),
    **{verb: Rule(verb, _named_hold) for verb in VERBS if verb in COMMANDS and COMMANDS[verb].names == "hold"},
    "leave": Rule("release", _named_hold),
    "batch": Rule("", _each_command),
    **dict.fromkeys(("journal", "cursor", "show_cursor", "events", "overview"), Rule("read")),
    **dict.fromkeys(
        ("list_claims", "show_claim", "list_items", "show_items", "list_seats", "read_windows"), Rule("read")
    ),
    **dict.fromkeys(("list_sagas", "show_saga", "list_budgets", "show_budget", "budget_usage"), Rule("read")),
    **dict.fromkeys(("list_records", "show_record"), Rule("read")),
    **dict.fromkeys(("show_faces", "list_names", "show_calendar", "list_windows", "list_resources"), Rule("read")),
    "move_cursor": Rule("move_cursor"),
    "put_record": Rule("put_record"),
    **dict.fromkeys(("claim", "hold_items", "hold_seats", "budget_hold"), Rule("hold")),
    "budget_consume": Rule("consume"),
    **dict.fromkeys(("confirm_items", "budget_confirm"), Rule("confirm")),
    "release_items": Rule("release"),
    **dict.fromkeys(("add_items", "add_seats"), Rule("create_pool")),
    "remove_seats": Rule("remove_pool"),
    **dict.fromkeys(("free_claim", "free_items"), Rule("return_to_pool")),
    "budget_resize": Rule("resize_pool"),
    "windows": Rule("", _windows),
}
"""By kind of request. A kind that is missing needs a key without a limit: API keys, webhooks, jobs, and what covers all tenants."""
