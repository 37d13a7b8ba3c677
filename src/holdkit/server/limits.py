"""The limits of one server process: which request is admitted, what it costs, and in which order costly requests run.

Theory of operation
-------------------

*Terms.* A *caller* is an API key; it belongs to a *tenant*. A *token* is the unit of a request's cost, about the work of one command
of one leg. A *bucket* holds the tokens of a key or of a tenant: it fills at a *rate*, and holds at most one *burst*. A request is *in
work* from its admission to its answer. A request is *costly* if its body costs more than `rates.costly` tokens, or if a request of its
tenant touched as many legs in the last seconds. A tenant is *active* for a second after a change that is not costly.

*The checks of a request, in order*, and what each protects against:

 1. `Limits.admit`, before anything is read. A token from the bucket of the key and from that of the tenant (429): other keys and
    tenants, from one that sends too fast. The requests in work, in all and of the tenant (503): the process from all callers together,
    and other tenants from one. The declared size of the body (413; 429): memory and processor, from large bodies.
 2. `Work.reserve`, on the decoded body. The rest of its cost (429). What the tenant has stored (`quotas`, 403) and the free space of the
    disk (`room`, 507), if the request may store something new: other tenants, and all that has to end, from what would fill the disk.
 3. `fairness.Pacing.begin`: a costly change waits for its turn while another tenant is active (503 if too many of its tenant wait, or it
    waits too long).
 4. `Work.claim`: one request at a time decides under an idempotency key (409), so that a retry never runs beside the original.
 5. The kernel's own queue, in which tenants take turns.

An operator's key of the default tenant passes 1 to 3 uncharged where it administers the server (`Operation.administers`): it must be
able to stop what uses the server up. A request without an API key counts as one of the tenant `STRANGERS`.

*A refused request has had no effect*, because every check comes before the kernel sees the request. Nothing is stored under its idempotency
key. It has cost its *plain* cost only: one token, and a twentieth of a token for each decoded element; `Work` gives the other tokens
back when it ends, and takes what the request would have stored out of the estimate of its tenant.

*What a request costs* is declared in the table of operations: `counted` names the field of the body whose elements cost a token each, and a
search through a section costs `SEARCH_TOKENS`. Each 4 KiB of the body cost another. So a batch of 1,000 commands costs 1,000 tokens, in
one request or in many. Legs that the body does not show are charged when the request has read them (`Work.charge_legs`).

*One request cannot lock out anybody.* Each cost counts things that were decoded, or is bounded here. One request takes at most one burst from a
bucket, and a bucket is at most one burst in debt, also when many requests that were admitted together are answered.

*Time.* A timer for every request would cost more than most of the checks. So a time limit is an entry in a set (`Timeouts`). One timer looks at
the set while it is not empty, and cancels the tasks whose limit has passed. Limits may be nested: the inner one must be the shorter.

All of this belongs to the event loop's thread, takes constant time for each request, and counts in this process only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ..errors import InvalidRequest, OperationConflict, Overloaded, Refused
from ..kernel.answers import BatchTooLarge
from ..operations import Operation
from ..wire.headers import retry_key
from ..wire.items import MAX_SEATS
from ..wire.problems import STORED, Problem
from .bounds import Bounds
from .fairness import Pacing
from .http_settings import KIB
from .quotas import Quotas
from .room import Room
from .settings import Settings

if TYPE_CHECKING:
    from .request import Caller, Request

STRANGERS: Final = "\0"
"""The tenant of requests that need no API key. No tenant can have this name."""
MAX_BUCKETS: Final = 10_000
"""Buckets of each kind that are kept: beyond that, full ones are dropped, which changes nothing for their owners."""
TOKENS_PER_ELEMENT: Final = 0.05
"""Tokens that an element of a body costs if the request is refused before the kernel sees it."""
SEARCH_TOKENS: Final = 20
"""Tokens of a search through a section, or of a change of its map: each reads all of its seats, which takes as long as some twenty holds."""
BYTES_PER_TOKEN: Final = 4 * KIB
"""Bytes of a body that cost a token."""
TICK: Final = 0.1
"""Seconds between two looks at the time limits: one may take effect as much too late."""


class Cost(NamedTuple):
    """The cost of a request."""

    commands: int = 1
    """About how many commands of one leg it is: what it may store."""
    elements: int = 0
    """Commands, legs, items and pools that were decoded."""
    tokens: int = 1
    """In all."""

    @property
    def plain(self) -> float:
        """Return the tokens that the request costs if it is refused before the kernel sees it."""
        return min(self.tokens, 1 + TOKENS_PER_ELEMENT * self.elements)


def cost_of(operation: Operation, body: Any, size: int) -> Cost:
    """Return what a decoded body of `size` bytes costs. A command counts as its legs."""
    counted = getattr(body, operation.counted) if operation.counted else None
    elements, commands = 0, 1
    if isinstance(counted, int):  # the kernel refuses a count that is out of bounds, after this
        commands = min(max(1, counted), MAX_SEATS)
    elif counted:
        elements = commands = sum([len(getattr(element, "legs", None) or (element,)) for element in counted])
    search = SEARCH_TOKENS if operation.searches else 0
    return Cost(commands, elements, commands + search + size // BYTES_PER_TOKEN)


class Bucket:
    """A token bucket: `level` tokens at the time `seen`. Below 0 it is in debt."""

    __slots__ = ("level", "seen")

    def __init__(self, level: float, seen: float) -> None:
        self.level, self.seen = level, seen


class RateLimit:
    """The buckets of all keys, or of all tenants: each gets `rate` tokens a second, and has at most `burst`."""

    def __init__(self, owner: str, rate: float, burst: int, unit: str = "tokens") -> None:
        self._owner, self._rate, self._burst, self._unit = owner, rate, burst, unit
        self._buckets: dict[str, Bucket] = {}

    def bucket(self, id: str, now: float) -> Bucket:
        """Return the bucket, filled up to this moment."""
        bucket = self._buckets.get(id)
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._drop_full(now)
            bucket = self._buckets[id] = Bucket(self._burst, now)
            return bucket
        bucket.level = min(self._burst, bucket.level + (now - bucket.seen) * self._rate)
        bucket.seen = now
        return bucket

    def check(self, bucket: Bucket, paid: float, cost: float) -> None:
        """Raise `Problem` unless the bucket has `cost` minus `paid`, the part that the request has paid already; a full bucket has enough."""
        needed = min(cost, self._burst) - min(paid, self._burst)
        if bucket.level < needed:
            wait = (needed - bucket.level) / self._rate
            what = "this request" if cost <= 1 else f"this request costs {cost - paid:g} {self._unit}, and"
            raise Problem(
                429,
                "rate_exceeded",
                f"{self._owner} exceeds its rate of {self._rate:g} {self._unit} per second: {what} can be sent again in {wait:.3g} s",
                retry_after=wait,
            )

    def charge(self, bucket: Bucket, paid: float, cost: float) -> None:
        """Charge `cost` minus `paid`, the part that the request has paid already; if it has paid too much, give that back."""
        bucket.level = max(-self._burst, bucket.level - (min(cost, self._burst) - min(paid, self._burst)))

    def _drop_full(self, now: float) -> None:
        rate, burst = self._rate, self._burst
        kept = {id: bucket for id, bucket in self._buckets.items() if bucket.level + (now - bucket.seen) * rate < burst}
        if len(kept) >= MAX_BUCKETS:  # all are in use: the one that was seen first starts anew
            del kept[min(kept, key=lambda id: kept[id].seen)]
        self._buckets = kept


class Timeouts:
    """The limits of the tasks of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.time = self._loop.time
        self.limits: set[TimeLimit] = set()
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, seconds: float, error: Callable[[], Exception] = TimeoutError) -> TimeLimit:
        """Return a context that cancels its task after this time and then raises the error."""
        return TimeLimit(self, self.time() + seconds, error)

    def add(self, limit: TimeLimit) -> None:
        """Watch a limit."""
        self.limits.add(limit)
        if self._timer is None:
            self._timer = self._loop.call_later(TICK, self._check)

    def _check(self) -> None:
        now = self.time()
        for limit in self.limits:
            if limit.until <= now and not limit.passed:
                limit.passed = True
                limit.task.cancel()
        self._timer = self._loop.call_later(TICK, self._check) if self.limits else None


class TimeLimit:
    """The limit of one task. Like `asyncio.timeout`, it turns the cancellation that it caused into its error, and no other: a task that
    was cancelled from elsewhere too stays cancelled."""

    __slots__ = ("_before", "_error", "_timeouts", "passed", "task", "until")

    task: asyncio.Task[Any]

    def __init__(self, timeouts: Timeouts, until: float, error: Callable[[], Exception]) -> None:
        self._timeouts, self.until, self._error, self.passed = timeouts, until, error, False

    def restart(self, seconds: float, error: Callable[[], Exception] = TimeoutError) -> None:
        """Give the task's next part `seconds` from now on."""
        self.until, self._error = self._timeouts.time() + seconds, error

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self.task, self._before = task, task.cancelling()
        self._timeouts.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._timeouts.limits.discard(self)
        if self.passed and self.task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise self._error() from error


class Limits:
    """The limits of this process, and the requests in work."""

    def __init__(self, settings: Settings, bounds: Bounds, quotas: Quotas) -> None:
        rates = settings.rates
        self._keys = RateLimit("the API key", rates.key, rates.key_burst)
        self._tenants = RateLimit("the tenant", rates.tenant, rates.tenant_burst)
        self.bytes = RateLimit("the tenant", rates.tenant_bytes, rates.tenant_bytes_burst, "bytes")
        self._bounds, self.max_body = bounds, settings.requests.max_body
        self.pacing, self.quotas = Pacing(settings), quotas
        self.room = Room(lambda: None, settings.journal.min_free)
        """Watches no disk until the application starts."""
        self.in_work = 0
        self.in_work_of: dict[str, int] = {}
        """By tenant, those that have any."""
        self.idle = asyncio.Event()
        """Set while no request is in work."""
        self.idle.set()
        self.keys_in_use: set[tuple[str, str]] = set()
        """Tenant and idempotency key of the requests that are being decided."""

    def admit(self, operation: Operation, caller: Caller | None, size: int) -> Work:
        """Admit a request that declares a body of `size` bytes, and charge its first token; or raise `Problem`."""
        work = Work(self, operation, caller)
        if not work.unlimited and caller is not None:
            now = time.monotonic()
            key, owner = self._keys.bucket(caller.id, now), self._tenants.bucket(work.tenant, now)
            if key.level < 1 or owner.level < 1:
                self._keys.check(key, 0, 1)
                self._tenants.check(owner, 0, 1)
            key.level -= 1
            owner.level -= 1
        if not work.unlimited:
            if self.in_work >= self._bounds.requests:
                detail = "the server is processing too many requests: retry later"
                raise Problem(503, "overloaded", detail, retry_after=0.2)
            if self.in_work_of.get(work.tenant, 0) >= self._bounds.requests_of_tenant:
                detail = "the server is processing as many requests of this tenant as it may have: retry later"
                raise Problem(503, "overloaded", detail, retry_after=0.2)
        work.charge_bytes(size)
        return work

    def charge(self, key: str, tenant: str, paid: float, cost: float, *, refusable: bool = False) -> None:
        """Charge both buckets `cost` minus `paid`; if the request has paid too much, give that back. If it is `refusable` and a bucket
        has too little, raise `Problem` and charge nothing."""
        now = time.monotonic()
        ours, shared = self._keys.bucket(key, now), self._tenants.bucket(tenant, now)
        if refusable:
            self._keys.check(ours, paid, cost)
            self._tenants.check(shared, paid, cost)
        self._keys.charge(ours, paid, cost)
        self._tenants.charge(shared, paid, cost)


class Work:
    """A request that was admitted: what it was charged, and what its end gives back. Entered, it counts as in work."""

    __slots__ = (
        "_estimated", "_key", "_limits", "_op", "_operation", "cost", "is_special", "must_wait", "paid", "refusal", "tenant",
        "unlimited",
    )  # fmt: skip

    def __init__(self, limits: Limits, operation: Operation, caller: Caller | None) -> None:
        self._limits, self._operation = limits, operation
        self._key, self.tenant = ("", STRANGERS) if caller is None else (caller.id, caller.tenant)
        self.unlimited = caller is not None and caller.operator and operation.administers
        """Whether an operator administers the server: nothing is charged, and it waits for no turn."""
        self.cost = Cost()
        """What its body costs, as soon as that is charged."""
        self.paid: float = 1
        """The tokens that were charged for it."""
        self.must_wait = False
        """Whether it has to wait for a turn."""
        self.refusal: Problem | None = None
        """Why its tenant may store nothing new, if so."""
        self.is_special = self.unlimited or (caller is not None and caller.limit is not None)
        """Whether it takes the slow arm of dispatch."""
        self._estimated = 0, 0
        """The commands and bytes that it has added to its tenant's storage estimate."""
        self._op: str | None = None

    def __enter__(self) -> Self:
        limits = self._limits
        limits.in_work += 1
        limits.in_work_of[self.tenant] = limits.in_work_of.get(self.tenant, 0) + 1
        limits.idle.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        limits = self._limits
        if self._op is not None:
            limits.keys_in_use.discard((self.tenant, self._op))
        if isinstance(error, Exception):
            self._settle(error)
        limits.in_work -= 1
        remaining = limits.in_work_of[self.tenant] - 1
        if remaining:
            limits.in_work_of[self.tenant] = remaining
        else:
            del limits.in_work_of[self.tenant]
        if not limits.in_work:
            limits.idle.set()

    def reserve(self, body: Any, size: int) -> None:
        """Charge what a decoded body of `size` bytes costs, or raise `Problem`."""
        limits, operation = self._limits, self._operation
        cost = cost_of(operation, body, size)
        if not self.unlimited:
            if cost.tokens > 1:
                try:
                    limits.charge(self._key, self.tenant, 1, cost.tokens, refusable=True)
                except Problem:
                    limits.charge(self._key, self.tenant, 1, cost.plain)
                    raise
            self.cost, self.paid = cost, cost.tokens
            self.must_wait = operation.changes and limits.pacing.costly(self.tenant, cost.tokens)
        if operation.changes and operation.body is not None:
            self.refusal = limits.quotas.add(self.tenant, cost.commands, size) or limits.room.refusal()
            self._estimated = cost.commands, size
        self.is_special = self.is_special or self.must_wait or self.refusal is not None

    def charge_bytes(self, size: int) -> None:
        """Charge the bytes of the body, or raise `Problem`, also if they are too many."""
        limit, most = self._limits.bytes, self._limits.max_body
        if size > most:
            raise Problem(413, "body_too_large", f"the body is larger than {most} bytes: split the request")
        if size and not self.unlimited:
            bucket = limit.bucket(self.tenant, time.monotonic())
            limit.check(bucket, 0, size)
            limit.charge(bucket, 0, size)

    def claim(self, request: Request) -> None:
        """Read the idempotency key of the request, and keep others from deciding under it until this one ends; or raise `Problem`."""
        op = request.op = retry_key(request.headers.get(b"idempotency-key"))
        if op is None:
            if self._operation.retry_key == "required":
                detail = "send an Idempotency-Key header, so that a retry is safe"
                raise Problem(400, "idempotency_key_required", detail)
            return
        key = (self.tenant, op)
        if key in self._limits.keys_in_use:
            detail = "another request with this Idempotency-Key is being processed: retry later"
            raise Problem(409, "operation_running", detail, retry_after=0.1)
        self._limits.keys_in_use.add(key)
        self._op = op

    def charge_legs(self, legs: int) -> None:
        """Charge work that the body does not show: the legs of holds that the request names by id, beyond the first of each."""
        if legs > 0:
            self._limits.pacing.touched(self.tenant, legs)
            self._charge(self.paid + legs)

    def _charge(self, cost: float) -> None:
        if not self.unlimited:
            self._limits.charge(self._key, self.tenant, self.paid, cost)
        self.paid = cost

    def _settle(self, error: Exception) -> None:
        """Give back what a refused request has not used. A refusal of the kernel is stored, for retries."""
        if not _kernel_has_seen(error):
            if self.paid > self.cost.plain:
                self._charge(self.cost.plain)
            self._store_at_most(0)
        elif isinstance(error, Refused):
            self._store_at_most(1)
        elif isinstance(error, Overloaded):
            self._store_at_most(0)

    def _store_at_most(self, commands: int) -> None:
        estimated, size = self._estimated
        if estimated:
            self._limits.quotas.take_back(self.tenant, estimated - commands, size)


def _kernel_has_seen(error: Exception) -> bool:
    """Return whether the kernel has seen the request that ended with this error. For a conflict it has only looked up the key."""
    if isinstance(error, InvalidRequest):
        return error.code in STORED or isinstance(error, BatchTooLarge)
    return not isinstance(error, Problem | OperationConflict)
