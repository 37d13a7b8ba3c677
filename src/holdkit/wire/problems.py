"""Refusals and errors as problem documents (RFC 9457): their shape, and the one that answers each exception, with a stable reason
and `effect` none or unknown. Only this module knows status codes; the server and `holdkit.contrib` answer alike.

An error whose effect is unknown is never reported as none. A message never contains a secret, a file path, or the text of a
foreign exception.
"""

from __future__ import annotations

from math import ceil
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from .. import errors
from ..kernel.answers import TIMES
from ..kernel.hints import in_words_of
from .fields import Time, at, encode

plain = errors.plain

Effect: TypeAlias = Annotated[
    Literal["none", "unknown"],
    Meta(description="none: this attempt did nothing; unknown: retry with the same Idempotency-Key to find out"),
]


class ShortfallAnswer(Struct, frozen=True, omit_defaults=True):
    """One leg that fell short."""

    pool: str
    name: Annotated[
        str, Meta(description="what the pool is called: its id, a key, an item's id, `inn/double/2027-07-03`")
    ]
    requested: int
    available: int
    total: Annotated[int, Meta(description="of the pool; of an account, its limit")]
    confirmed: Annotated[
        bool, Meta(description="of a key or an item: it is confirmed, so it does not become available by itself")
    ] = False
    used: Annotated[int, Meta(description="of an account: what it uses already")] = 0


class Facts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts behind a refusal. What does not apply is left out."""

    subject: Annotated[str, Meta(description="what the refusal is about: the id of a pool, hold, key or record")] = ""
    in_use: int | UnsetType | None = UNSET
    now: Time | UnsetType | None = UNSET
    max_lifetime: Annotated[float | UnsetType | None, Meta(description="in seconds")] = UNSET
    ended_at: Time | UnsetType | None = UNSET
    deadline: Time | UnsetType | None = UNSET
    left: int | UnsetType | None = UNSET
    version: int | UnsetType | None = UNSET
    waiting: Annotated[int | UnsetType | None, Meta(description="how many wait in the line")] = UNSET
    number: Annotated[int | UnsetType | None, Meta(description="the hold's number in the line")] = UNSET
    claim: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    remaining: Annotated[float | UnsetType | None, Meta(description="seconds until the deadline")] = UNSET
    taken: tuple[str, ...] | UnsetType = UNSET
    hold: str | UnsetType = UNSET
    entity: Annotated[str | UnsetType, Meta(description="what the hold was confirmed for")] = UNSET
    requested: int | UnsetType = UNSET
    loose: int | UnsetType = UNSET
    consumed: int | UnsetType = UNSET
    shortfalls: tuple[ShortfallAnswer, ...] | UnsetType = UNSET
    available: int | UnsetType = UNSET
    total: int | UnsetType = UNSET
    used: Annotated[int | UnsetType, Meta(description="by the account, or of a quota by the tenant")] = UNSET
    limit: Annotated[int | UnsetType, Meta(description="the most that one account may have of the pool")] = UNSET
    budgets: tuple[str, ...] | UnsetType = UNSET
    retry_after: Annotated[float | UnsetType | None, Meta(description="seconds to wait before a retry")] = UNSET
    field: Annotated[str | None, Meta(description="of an invalid request: the field")] = None
    code: Annotated[str | None, Meta(description="of an invalid request: a stable word for what is wrong")] = None


class ProblemAnswer(Facts, frozen=True, kw_only=True):
    """The answer to a request that did not succeed."""

    type: str
    title: Annotated[str, Meta(description="for customers: it names no id and no number")]
    status: int
    detail: Annotated[str, Meta(description="for developers; the text may change")]
    reason: Annotated[str, Meta(description="a stable word for programs")]
    effect: Effect
    request_id: Annotated[str, Meta(description="identifies the request in the server's log")]
    server_time: Time
    transient: Annotated[bool, Meta(description="of a refusal: whether the same request may succeed later")] = False
    replayed: Annotated[bool, Meta(description="whether this is the recorded answer of an earlier request")] = False
    allow: Annotated[str | UnsetType, Meta(description="the methods that the path supports")] = UNSET
    what: Annotated[str | UnsetType, Meta(description="of a full quota: what there is too much of")] = UNSET
    allowed: int | UnsetType = UNSET
    archived: Annotated[
        bool, Meta(description="of a lost cursor: whether what follows it has left the journal for an archive")
    ] = False


STATUSES: Final[dict[str, int]] = {
    "operation_conflict": 422,
    "operation_table_full": 503,
    "pool_not_found": 404,
    "hold_not_found": 404,
    "key_not_found": 404,
    "saga_not_found": 404,
    "saga_busy": 503,
    "claim_not_found": 404,
    "budget_not_found": 404,
    "webhook_not_found": 404,
    "cursor_not_found": 404,
    "record_not_found": 404,
    "job_not_found": 404,
    "tenant_not_found": 404,
    "section_not_found": 404,
    "cursor_lost": 410,
    "hold_retired": 410,
    "not_owner": 403,
    "version_conflict": 412,
}
"""The status of a refusal; all others are 409."""

STORED: Final = frozenset(
    (
        "key_not_found",
        "keys_too_many",
        "tenant_deleting",
        "tenant_active",
        "tenant_in_use",
        "saga_not_found",
        "saga_ended",
        "saga_not_retriable",
        "budget_not_found",
    )
)
"""Codes of requests that are well-formed but conflict with what is stored: each becomes a reason of its own."""

PROBLEM: Final = (b"content-type", b"application/problem+json")
REPLAYED: Final = (b"idempotency-replayed", b"true")

TITLES: Final = {
    400: "The request is not valid",
    401: "API key required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "This is not possible now",
    410: "No longer available",
    412: "This was changed in the meantime",
    413: "Request too large",
    414: "URL too long",
    415: "Content type not supported",
    422: "This was sent twice, with different content",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    503: "Please try again in a moment",
    504: "Please try again in a moment",
    507: "Please try again later",
}
"""By status, the title of an answer that stands for no exception of Holdkit. Like `HoldkitError.title`, it may be shown to customers."""


_TURNED_AWAY: Final = {errors.SagaBusy: (503, "saga_busy"), errors.StorageFull: (507, "storage_full")}


def title_of(reason: str, status: int) -> str:
    """Return the text for customers of an answer that stands for no exception, or for a refusal."""
    if reason == "ticket_malformed":
        return errors.INCOMPLETE_LINK
    return errors.REFUSALS[reason].title if reason in errors.REFUSALS else TITLES.get(status, "Something went wrong")


class Problem(Exception):
    """An answer to a request that did not succeed: of the server, or of an application."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        effect: str = "none",
        retry_after: float | None = None,
        title: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(f"{status} {reason}")
        self.title = title_of(reason, status) if title is None else title
        self.status, self.reason, self.detail = status, reason, detail
        self.effect, self.retry_after, self.more = effect, retry_after, more


def problem_of(error: BaseException) -> Problem:
    """Return the problem for an exception. An unexpected exception is a bug, and its effect is unknown."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.Refused):
        return refusal_problem(error)
    problem = _error_problem(error)
    if isinstance(error, errors.HoldkitError) and problem.reason not in STORED:
        problem.title = error.title
    return problem


def _error_problem(error: BaseException) -> Problem:
    if isinstance(error, errors.InvalidRequest):
        stored = error.code in STORED
        status, reason = (STATUSES.get(error.code, 409), error.code) if stored else (400, "invalid_request")
        return Problem(status, reason, plain(error), field=error.field, code=error.code)
    if isinstance(error, errors.OutcomeUnknown):
        detail = "the request may or may not have taken effect: retry it with the same Idempotency-Key"
        return Problem(503, "outcome_unknown", detail, effect="unknown", retry_after=0.5)
    if isinstance(error, errors.Overloaded):
        status, reason = _TURNED_AWAY.get(type(error), (503, "overloaded"))
        return Problem(status, reason, plain(error), retry_after=error.retry_after)
    if isinstance(error, errors.CursorLost):
        if error.archived_to is not None:  # where to, is for those who run the server
            left = "what follows this cursor was archived, beside the server: read it there, and start anew from GET /v1/cursor"
            return Problem(410, "cursor_lost", left, archived=True)
        lost = "the journal no longer has the entry that this cursor saw: start anew, from the beginning or from GET /v1/cursor"
        return Problem(410, "cursor_lost", plain(error) if error.position is None else lost)
    if isinstance(error, errors.EngineError):
        return Problem(
            503, "engine_error", "the storage failed, and this attempt changed nothing: retry later", retry_after=1.0
        )
    if isinstance(error, errors.SagaParked):
        return Problem(409, "saga_parked", plain(error), effect="unknown")
    if isinstance(error, errors.SagaCancelled):
        return Problem(409, "saga_cancelled", plain(error))
    if isinstance(error, TimeoutError):
        detail = "the storage did not answer in time: retry with the same Idempotency-Key"
        return Problem(504, "timed_out", detail, effect="unknown", retry_after=1.0)
    return Problem(
        500, "internal_error", "internal error: find it in the server's log by the request id", effect="unknown"
    )


def refusal_problem(refused: errors.Refused) -> Problem:
    """Return the problem for a refusal."""
    more = facts(refused)
    if refused.replayed:
        more["replayed"] = True
    status = STATUSES.get(refused.reason, 409)
    retry_after = more.pop("retry_after", 1.0 if status == 503 else None)
    return Problem(
        status,
        refused.reason,
        detail_of(refused),
        retry_after=retry_after,
        transient=refused.transient,
        **more,
    )


def detail_of(refused: errors.Refused) -> str:
    """Return the message of a refusal for an HTTP caller."""
    return in_words_of("http", refused.reason, plain(refused).removeprefix(f"{refused.reason}: "))


def facts(refused: errors.Refused) -> dict[str, Any]:
    """Return the details of a refusal, ready for JSON."""
    hidden = _NAMED_BY_FACE if isinstance(refused, errors.AlreadyClaimed | errors.ItemsTaken) else _NOT_COPIED
    given = {name: value for name, value in refused.details.items() if name not in hidden}
    if refused.subject:
        given["subject"] = str(refused.subject)
    if "max_lifetime" in given:
        given["max_lifetime"] = given["max_lifetime"].total_seconds()
    if "shortfalls" in given:
        given["shortfalls"] = tuple(
            [
                ShortfallAnswer(one.pool, one.name, one.requested, one.available, one.total, one.confirmed, one.used)
                for one in given["shortfalls"]
            ]
        )
    return given | {name: at(given[name]) for name in TIMES & given.keys()}


_NOT_COPIED: Final = ("subject", "holders")
"""The first is added separately. The second is left out: a caller must not see the holds of others."""
_NAMED_BY_FACE: Final = (*_NOT_COPIED, "shortfalls", "requested", "available", "total")
"""Of a key or items, whose document says what is taken in other fields."""


def problem_headers(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return the headers that belong to a problem, its content type among them."""
    headers: list[tuple[bytes, bytes]] = [PROBLEM]
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(max(1, ceil(problem.retry_after))).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="holdkit"'))
    if problem.more.get("replayed"):
        headers.append(REPLAYED)
    if "allow" in problem.more:
        headers.append((b"allow", problem.more["allow"].encode()))
    return headers


def problem_body(problem: Problem, request_id: str, server_time: Any) -> bytes:
    """Return the body of an application/problem+json answer."""
    body = {
        "type": f"urn:holdkit:problem:{problem.reason}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "reason": problem.reason,
        "effect": problem.effect,
        "request_id": request_id,
        "server_time": server_time,
        **problem.more,
    }
    if problem.retry_after is not None:
        body.setdefault("retry_after", round(problem.retry_after, 3))
    return encode(body)
