"""Refusals and errors as RFC 9457 problems, with a stable reason, and `effect` none or unknown. Only this module knows status
codes.

An error whose effect is unknown is never reported as none. A message never contains a secret, a file path, or the text of a
foreign exception.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
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

TITLES: Final = {
    400: "Invalid request",
    401: "API key required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Refused",
    410: "No longer available",
    412: "Version conflict",
    413: "Request too large",
    414: "URL too long",
    415: "Content type not supported",
    422: "Idempotency key reused",
    429: "Too many requests",
    431: "Headers too large",
    500: "Internal error",
    503: "Temporarily unavailable",
    504: "Timed out",
}


class Problem(Exception):
    """An error answer of the server."""

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
    """The problem for an exception. An unexpected exception is a bug, and its effect is unknown."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.Refused):
        return refusal_problem(error)
    if isinstance(error, errors.InvalidRequest):
        stored = error.code in STORED
        status, reason = (STATUSES.get(error.code, 409), error.code) if stored else (400, "invalid_request")
        return Problem(status, reason, plain(error), field=error.field, code=error.code)
    if isinstance(error, errors.OutcomeUnknown):
        detail = "the request may or may not have taken effect: retry it with the same Idempotency-Key"
        return Problem(503, "outcome_unknown", detail, effect="unknown", retry_after=0.5)
    if isinstance(error, errors.Overloaded):
        reason = "saga_busy" if isinstance(error, errors.SagaBusy) else "overloaded"
        return Problem(503, reason, plain(error), retry_after=error.retry_after)
    if isinstance(error, errors.CursorLost):
        lost = "the journal no longer has the entry that this cursor saw: start anew, from the beginning or from GET /v1/cursor"
        return Problem(410, "cursor_lost", plain(error) if error.position is None else lost)
    if isinstance(error, errors.EngineError):
        return Problem(
            503, "engine_error", "the storage failed, and this attempt changed nothing: retry later", retry_after=1.0
        )
    if isinstance(error, TimeoutError):
        detail = "the storage did not answer in time: retry with the same Idempotency-Key"
        return Problem(504, "timed_out", detail, effect="unknown", retry_after=1.0)
    return Problem(
        500, "internal_error", "internal error: find it in the server's log by the request id", effect="unknown"
    )


def refusal_problem(refused: errors.Refused) -> Problem:
    """The problem for a refusal."""
    more = facts(refused)
    if refused.replayed:
        more["replayed"] = True
    status = STATUSES.get(refused.reason, 409)
    retry_after = more.pop("retry_after", 1.0 if status == 503 else None)
    return Problem(status, refused.reason, plain(refused), retry_after=retry_after, transient=refused.transient, **more)


def facts(refused: errors.Refused) -> dict[str, Any]:
    """The details of a refusal, ready for JSON."""
    given = {name: value for name, value in refused.details.items() if name not in _NOT_COPIED}
    if refused.subject:
        given["subject"] = str(refused.subject)
    if "max_lifetime" in given:
        given["max_lifetime"] = given["max_lifetime"] / 1_000_000
    return given


_NOT_COPIED: Final = ("found", "subject")
"""Reported under another name, or added separately."""


def problem_body(problem: Problem, request_id: str, server_time: Any) -> bytes:
    """The body of an application/problem+json answer."""
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


def raw_problem(problem: Problem) -> bytes:
    """The bytes of an answer that the connection itself sends, before there is a request; it is closed afterwards."""
    moment = datetime.now(UTC)
    body = problem_body(problem, secrets.token_hex(8), moment)
    head = [
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        f"date: {format_datetime(moment, usegmt=True)}",
        "content-type: application/problem+json",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "connection: close",
    ]
    if problem.retry_after is not None:
        head.append(f"retry-after: {max(1, round(problem.retry_after))}")
    return "\r\n".join((*head, "", "")).encode() + body
