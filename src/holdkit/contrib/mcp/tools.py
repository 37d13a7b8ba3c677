"""The tools, as a model reads them. Their descriptions say what to do next, and so does every error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, BeforeValidator, Field

from ...client.problems import NotAdmitted
from ...core.model import SECOND
from ...errors import (
    HoldkitError,
    HoldNotFound,
    HoldRetired,
    InsufficientCapacity,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    PoolNotFound,
    Refused,
    plain,
)
from ...kernel.pool import Pool
from ...kernel.results import Hold
from .policy import NotAllowed
from .session import Session, left

T = TypeVar("T")
log = logging.getLogger("holdkit.contrib")

INSTRUCTIONS = """Reserve units of scarce things (seats, GPUs, tokens of a budget) before you use them, so that nobody else can take them.
Place a hold, do the work, then confirm what was used, or release the hold if the work is not done. A hold that is neither confirmed nor
released ends at its deadline, and its units are free again; extend it if the work takes longer. Call `limits` first: it says what you may
use. An answer "refused" is final for this moment: do not repeat the same call at once."""


def _number(given: Any) -> Any:
    """Refuse True and False, which Python takes for numbers."""
    if isinstance(given, bool):
        raise ValueError("must be a number, not true or false")  # noqa: TRY004  # pydantic tells the caller of this one only
    return given


Amount = Annotated[int, BeforeValidator(_number)]
HoldId = Annotated[str, Field(description="the `hold` of an earlier answer in this session")]
Units = Annotated[dict[str, Amount], Field(description='units by pool id, such as {"gpu": 2}')]
Seconds = Annotated[
    float, BeforeValidator(_number), Field(description="seconds from now until the hold ends by itself", gt=0)
]
Purpose = Annotated[str | None, Field(description="what it is for, for people who look later", max_length=256)]
SetName = Annotated[str, Field(description="the name of a set of budgets; `limits` names them")]
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


class PoolFacts(BaseModel):
    """A pool as it is now."""

    pool: str
    total: int
    held: int
    consumed: int
    available: int
    waiting: int


class HoldFacts(BaseModel):
    """A hold."""

    hold: str
    state: str
    units: dict[str, int]
    seconds_left: float | None
    deadline: str | None
    uncovered: dict[str, int]


class BudgetFacts(BaseModel):
    """One window of a budget."""

    budget: str
    per: str
    total: int
    held: int
    consumed: int
    available: int
    resets: str | None


class LimitFacts(BaseModel):
    """What the assistant may do."""

    pools: list[str]
    budgets: list[str]
    max_seconds: float
    max_age_seconds: float
    units_at_a_time: int | None
    units_left: int | None
    read_only: bool


class Tools:
    """The tools of one session. The docstring of each method is what the model reads."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def limits(self) -> LimitFacts:
        """What you may use here: pools (a name that ends with * stands for all that begin so), budget sets, the longest time, and how
        many units you may hold at a time. These limits cannot be changed from here."""
        session, policy = self._session, self._session.policy
        own = await self._told(session.limit())
        return LimitFacts(
            pools=[*policy.pools],
            budgets=[*policy.budgets],
            max_seconds=policy.ttl_slots / SECOND,
            max_age_seconds=policy.age_slots / SECOND,
            units_at_a_time=None if own is None else own.total,
            units_left=None if own is None else own.available,
            read_only=policy.read_only,
        )

    async def list_pools(self) -> list[PoolFacts]:
        """The pools that you may use, with how many units are available now. Only `hold` reserves them: they may be gone a moment later."""
        return [_pool_facts(pool) for pool in await self._told(self._session.pools())]

    async def show_hold(self, hold: HoldId) -> HoldFacts:
        """A hold as it is now: held, confirmed, released, expired or waiting, and how long it still lasts."""
        return self._facts(await self._told(self._session.hold(hold)))

    async def remaining_budget(self, budget_set: SetName) -> list[BudgetFacts]:
        """What is left of each budget of a set in its current windows, and when each window ends."""
        return [
            BudgetFacts(
                budget=one.budget,
                per=one.per,
                total=one.total,
                held=one.held,
                consumed=one.consumed,
                available=one.available,
                resets=one.closes.isoformat(),
            )
            for one in await self._told(self._session.usage(budget_set))
        ]

    async def hold(self, units: Units, seconds: Seconds, purpose: Purpose = None) -> HoldFacts:
        """Reserve units of one or several pools until a deadline: all of them, or nothing if any is missing. Then do the work, and call
        `confirm` or `release` with the `hold` of the answer before `seconds_left` is over."""
        return self._facts(await self._told(self._session.place(units, seconds, purpose)))

    async def confirm(self, hold: HoldId, units: Units | None = None) -> HoldFacts:
        """The held units are used for good. With `units`, only that many of each pool; the rest is released."""
        return self._facts(await self._told(self._session.confirm(hold, units)))

    async def release(self, hold: HoldId) -> HoldFacts:
        """Give a hold back: its units are free for others. For holds of pools and of budgets."""
        return self._facts(await self._told(self._session.release(hold)))

    async def extend(self, hold: HoldId, seconds: Seconds) -> HoldFacts:
        """Move the deadline of a hold to so many seconds from now, if the work takes longer. It is never moved to an earlier time."""
        return self._facts(await self._told(self._session.extend(hold, seconds)))

    async def hold_budget(
        self,
        budget_set: SetName,
        estimate: Annotated[
            dict[str, Amount], Field(description='what you expect to spend, by budget: {"tokens": 2000}')
        ],
        seconds: Seconds,
        purpose: Purpose = None,
    ) -> HoldFacts:
        """Reserve an estimate of one or several budgets of a set before you spend: all of it, or nothing. Then call `confirm_budget`
        with what was really spent, or `release`."""
        return self._facts(await self._told(self._session.place_estimate(budget_set, estimate, seconds, purpose)))

    async def confirm_budget(
        self,
        hold: HoldId,
        actual: Annotated[
            dict[str, Amount] | None, Field(description="what was spent, by budget; without it, the whole estimate")
        ] = None,
    ) -> HoldFacts:
        """Book what was spent of an estimate; the rest of it is free again. `uncovered` says what was spent beyond the budget."""
        ended = await self._told(self._session.confirm_actual(hold, actual))
        return self._facts(ended, ended.uncovered)

    async def _told(self, asked: Awaitable[T]) -> T:
        """Await an answer. Turn an error into words that a model can act on."""
        try:
            return await asked
        except InsufficientCapacity as short:
            own = self._session.policy.limit_pool
            missing = "; ".join(
                f"{'your limit of units at a time' if one.pool == own else one.name}: {one.requested} requested, "
                f"{one.available} available of {one.total}"
                for one in short.shortfalls
            ) or plain(short).removeprefix(f"{short.reason}: ")
            advice = "Hold less, or release what you do not need"
            raise ToolError(f"refused ({short.reason}): nothing was held. {missing}. {advice}") from short
        except PoolNotFound as none:
            raise ToolError(
                f"refused ({none.reason}): there is no {f'pool {none.subject!r}' if none.subject else 'such pool'}; "
                "list_pools names those"
            ) from none
        except (HoldNotFound, HoldRetired) as none:
            raise ToolError(
                f"refused ({none.reason}): there is no such hold; use the `hold` of an earlier answer, or place another one"
            ) from none
        except Refused as refused:
            told = plain(refused).removeprefix(refused.reason).removeprefix(": ")
            raise ToolError(f"refused ({refused.reason}){told and f': {told}'}") from refused
        except (NotAllowed, NotAdmitted, InvalidRequest) as denied:
            raise ToolError(f"not done: {plain(denied)}") from denied
        except OutcomeUnknown as unknown:
            log.warning("the outcome of a tool is unknown: %s", unknown, extra={"event": "mcp_outcome_unknown"})
            raise ToolError("it is unknown whether this was done. Look with list_pools") from unknown
        except Overloaded as busy:
            raise ToolError(
                f"not done: too much is asked for at the moment. Wait {busy.retry_after:.1f} seconds, then try again"
            ) from busy
        except HoldkitError as failed:  # its message may name the database, which is not for a transcript
            log.warning("a tool failed: %s", failed, extra={"event": "mcp_tool_failed"})
            raise ToolError(
                "not done: the storage does not answer as it should. Wait a little, then try again"
            ) from failed

    def _facts(self, hold: Hold, uncovered: dict[str, int] | None = None) -> HoldFacts:
        own = self._session.policy.limit_pool
        return HoldFacts(
            hold=hold.id,
            state=hold.state.value,
            units={
                leg.pool: leg.held or leg.confirmed or leg.quantity
                for leg in hold.legs
                if leg.pool != own and not leg.pool.startswith("~")
            },
            seconds_left=left(hold, self._session.now()) if hold.state.value == "held" else None,
            deadline=None if hold.deadline is None else hold.deadline.isoformat(),
            uncovered=uncovered or {},
        )


def mcp_server(session: Session) -> MCPServer[Any]:
    """Return a server for one session."""
    server: MCPServer[Any] = MCPServer("holdkit", instructions=INSTRUCTIONS, log_level="WARNING")
    tools, policy = Tools(session), session.policy
    for read in (tools.limits, tools.list_pools, tools.show_hold):
        server.add_tool(read, annotations=READS)
    changes: list[Any] = [tools.release, tools.extend]
    if policy.pools:
        changes += [tools.hold, tools.confirm]
    if policy.budgets:
        server.add_tool(tools.remaining_budget, annotations=READS)
        changes += [tools.hold_budget, tools.confirm_budget]
    if not policy.read_only:
        for change in changes:
            server.add_tool(change, annotations=CHANGES)
    return server


def _pool_facts(pool: Pool) -> PoolFacts:
    return PoolFacts(
        pool=pool.id,
        total=pool.total,
        held=pool.held,
        consumed=pool.consumed,
        available=pool.bookable,
        waiting=pool.waiting,
    )
