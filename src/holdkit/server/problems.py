"""Every "no" as an RFC 9457 problem: our reasons, and `effect` none or unknown. The only place that knows HTTP numbers.

Nothing here turns *unknown* into *none*: what is not known to have done nothing says so. Messages never carry a secret, a
path of the machine, or the text of an exception that is not ours.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .. import errors

plain = errors.plain

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
    "cursor_lost": 410,
    "hold_retired": 410,
    "not_owner": 403,
    "version_conflict": 412,
}
"""The status of a refusal; all others are 409."""

STORED: Final = frozenset(("key_not_found", "saga_not_found", "saga_ended"))
"""Codes of calls that are wrong because of what is stored, and not malformed: they are reasons of their own."""

TITLES: Final = {
    400: "The request is malformed",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "The request took too long to arrive",
    409: "Refused",
    410: "Gone",
    412: "Changed meanwhile",
    413: "The request is too large",
    414: "The address is too long",
    415: "Only JSON is understood",
    422: "The retry key was used for something else",
    429: "Too many requests",
    431: "The headers are too large",
    500: "A bug of ours",
    503: "Not now",
    504: "No answer in time",
}


class Problem(Exception):
    """A "no" of the server itself, before or beside the kernel."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        effect: str = "none",
        retry_after: float | None = None,
        **more: Any,
    ) -> None:
        super().__init__(f"{status} {reason}")
        self.status, self.reason, self.detail = status, reason, detail
        self.effect, self.retry_after, self.more = effect, retry_after, more


def problem_of(error: BaseException) -> Problem:
    """What a caller is told of an error; anything unforeseen is a bug of ours, and its effect unknown."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.Refused):
        return refusal_problem(error)
    if isinstance(error, errors.InvalidRequest):
        stored = error.code in STORED
        status, reason = (STATUSES.get(error.code, 409), error.code) if stored else (400, "invalid_request")
        return Problem(status, reason, plain(error), field=error.field, code=error.code)
    if isinstance(error, errors.OutcomeUnknown):
        said = "it may or may not have happened: ask again with the same Idempotency-Key"
        return Problem(503, "outcome_unknown", said, effect="unknown", retry_after=0.5)
    if isinstance(error, errors.Overloaded):
        reason = "saga_busy" if isinstance(error, errors.SagaBusy) else "overloaded"
        return Problem(503, reason, plain(error), retry_after=error.retry_after)
    if isinstance(error, errors.CursorLost):
        return Problem(410, "cursor_lost", plain(error))
    if isinstance(error, errors.EngineError):
        return Problem(503, "engine_error", "the storage failed; this attempt did nothing", retry_after=1.0)
    if isinstance(error, TimeoutError):
        said = "no answer came in time: ask again with the same Idempotency-Key"
        return Problem(504, "timed_out", said, effect="unknown", retry_after=1.0)
    return Problem(500, "internal_error", "something broke here; the request id finds it in the log", effect="unknown")


def refusal_problem(refused: errors.Refused) -> Problem:
    """A refusal with its facts."""
    more = facts(refused)
    if refused.replayed:
        more["replayed"] = True
    status = STATUSES.get(refused.reason, 409)
    retry_after = more.pop("retry_after", 1.0 if status == 503 else None)
    return Problem(status, refused.reason, plain(refused), retry_after=retry_after, transient=refused.transient, **more)


def facts(refused: errors.Refused) -> dict[str, Any]:
    """The numbers behind a refusal, ready for JSON."""
    given = {name: value for name, value in refused.details.items() if name not in _TWICE}
    if refused.subject:
        given["subject"] = str(refused.subject)
    if "max_lifetime" in given:
        given["max_lifetime"] = given["max_lifetime"] / 1_000_000
    return given


_TWICE: Final = ("found", "subject")
"""Told under another name, or below."""


def problem_body(problem: Problem, request_id: str, server_time: Any) -> bytes:
    """As application/problem+json."""
    body = {
        "type": f"urn:holdkit:problem:{problem.reason}",
        "title": TITLES.get(problem.status, "Refused"),
        "status": problem.status,
        "detail": problem.detail,
        "reason": problem.reason,
        "effect": problem.effect,
        "request_id": request_id,
        "server_time": server_time,
        **problem.more,
    }
    return _encoder.encode(body)


_encoder: Final = msgspec.json.Encoder(enc_hook=str)
