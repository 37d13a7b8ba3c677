"""Every reason that the server itself gives, beside the refusals of the kernel: its status, its meaning, and the routes that may
give it. The OpenAPI document and docs/http.md are made from this table, and a test compares it with the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..errors import REFUSALS
from ..operations import Operation
from ..wire.problems import STATUSES


class Meaning(NamedTuple):
    """The meaning of a reason, and where it occurs."""

    status: int
    says: str
    given_by: Callable[[Operation], bool]


def _every(_operation: Operation) -> bool:
    return True


def _named(_operation: Operation) -> bool:
    """Return False: only routes that name the reason give it."""
    return False


def _with_key(operation: Operation) -> bool:
    return operation.scope is not None


def _sending(operation: Operation) -> bool:
    """Return whether the request may have a body: it is read even where none is expected."""
    return operation.method != "GET"


def _changing(operation: Operation) -> bool:
    return operation.changes


def _with_body(operation: Operation) -> bool:
    return operation.body is not None


def _retried(operation: Operation) -> bool:
    return operation.retry_key is not None


def _of_all_tenants(operation: Operation) -> bool:
    return operation.operator or "all_tenants" in operation.query.__struct_fields__


def _of_one(operation: Operation) -> bool:
    return "{" in operation.path


def _ticketed(operation: Operation) -> bool:
    return operation.takes_ticket


def _conditional(operation: Operation) -> bool:
    return operation.precondition


REASONS: Final[dict[str, Meaning]] = {
    "invalid_request": Meaning(400, "a field is unknown, missing or invalid: `field` and `code` name it", _every),
    "request_malformed": Meaning(400, "this is not HTTP/1.1, or its length is ambiguous", _named),
    "path_malformed": Meaning(400, "the path is not percent-encoded UTF-8, or contains NUL", _every),
    "query_malformed": Meaning(400, "the query string is not name=value pairs, each name once", _every),
    "header_twice": Meaning(400, "a header that must be unique was sent twice", _every),
    "ticket_in_path": Meaning(400, "a ticket belongs into the header Holdkit-Ticket, not into a path", _of_one),
    "ticket_malformed": Meaning(
        400, "Holdkit-Ticket is cut short, or belongs to another hold than the path", _ticketed
    ),
    "actor_conflict": Meaning(400, "the request names another actor than a trusted proxy has authenticated", _changing),
    "actor_header_malformed": Meaning(
        400, "the name that a trusted proxy gives is empty, too long or not printable", _with_key
    ),
    "if_match_unsupported": Meaning(400, "this route does not support If-Match", _every),
    "if_match_malformed": Meaning(400, "If-Match is not an ETag of this pool", _conditional),
    "idempotency_key_required": Meaning(400, "the request needs an Idempotency-Key", _retried),
    "idempotency_key_malformed": Meaning(400, "Idempotency-Key is not 1 to 200 printable ASCII characters", _retried),
    "content_length_malformed": Meaning(400, "Content-Length is not a number", _sending),
    "body_cut_short": Meaning(400, "the connection was closed before the whole body had arrived", _sending),
    "body_unexpected": Meaning(400, "the route takes no body", _sending),
    "body_not_json": Meaning(400, "the body is not one JSON object in UTF-8", _with_body),
    "body_too_deep": Meaning(400, "the body is nested too deeply", _with_body),
    "field_twice": Meaning(400, "a field occurs twice", _with_body),
    "key_required": Meaning(401, "the request has no API key", _with_key),
    "key_refused": Meaning(401, "the API key is unknown, expired or revoked", _with_key),
    "scope_too_small": Meaning(403, "the API key's scope does not allow this", _with_key),
    "key_limited": Meaning(403, "the API key is limited to other pools or verbs", _with_key),
    "operator_only": Meaning(403, "only keys of the default tenant may ask about all tenants", _of_all_tenants),
    "tenant_disabled": Meaning(403, "an operator has disabled the tenant", _with_key),
    "storage_quota_exceeded": Meaning(403, "the tenant's share of storage is used up: see Tenants", _changing),
    "host_refused": Meaning(403, "an open server answers requests to localhost only", _every),
    "origin_refused": Meaning(403, "an open server answers requests of its own pages only", _every),
    "not_found": Meaning(404, "there is no such path", _named),
    "method_not_allowed": Meaning(405, "the path does not support this method", _named),
    "claim_not_found": Meaning(404, "there is no claim with this id", _named),
    "budget_not_found": Meaning(404, "there is no set of budgets with this name", _named),
    "webhook_not_found": Meaning(404, "there is no webhook with this id", _named),
    "cursor_not_found": Meaning(404, "no follower with this name has stored a cursor", _named),
    "record_not_found": Meaning(404, "there is no record with this kind and id", _named),
    "saga_not_found": Meaning(404, "there is no saga with this id, or it ended longer ago than the retention", _named),
    "key_not_found": Meaning(404, "there is no API key with this id", _named),
    "job_not_found": Meaning(404, "there is no job with this id, or it ended a while ago", _named),
    "tenant_not_found": Meaning(404, "there is no tenant with this name", _named),
    "body_late": Meaning(408, "the body did not arrive in time", _sending),
    "operation_running": Meaning(409, "a request with this Idempotency-Key is being decided right now", _retried),
    "job_running": Meaning(409, "a job of this kind is running", _named),
    "keys_too_many": Meaning(409, "the tenant has as many API keys as it may have", _named),
    "saga_ended": Meaning(409, "the saga has already ended", _named),
    "saga_not_retriable": Meaning(409, "the saga's hold is gone or was changed: end the saga by hand", _named),
    "test_running": Meaning(409, "a test event is being sent to this webhook", _named),
    "secret_unreadable": Meaning(409, "the webhook's secret was encrypted under another server secret", _named),
    "tenant_active": Meaning(409, "the tenant must be disabled before it is deleted", _named),
    "tenant_deleting": Meaning(409, "the tenant is being deleted", _named),
    "tenant_in_use": Meaning(409, "the deletion left pools in use: start it again", _named),
    "cursor_lost": Meaning(
        410,
        "the journal no longer has what this cursor has seen; with `archived`, what follows it was archived",
        _named,
    ),
    "body_too_large": Meaning(413, "the body is larger than the server accepts", _sending),
    "query_too_long": Meaning(414, "the query string is longer than the server accepts", _every),
    "content_type_unknown": Meaning(415, "the body is not application/json", _with_body),
    "rate_exceeded": Meaning(429, "too many requests of this API key, tenant or address", _with_key),
    "headers_too_large": Meaning(431, "the headers are larger than the server accepts", _every),
    "internal_error": Meaning(500, "a bug in Holdkit; the server's log has it under the request id", _every),
    "overloaded": Meaning(503, "the server or its storage has too much to do: retry later", _every),
    "stopping": Meaning(503, "the server is shutting down: retry on another server, or later", _every),
    "not_started": Meaning(503, "the application is not running", _every),
    "engine_error": Meaning(503, "the storage failed, and this attempt did nothing: retry later", _every),
    "saga_busy": Meaning(503, "another process is driving the saga", _named),
    "export_running": Meaning(503, "another export is running on this server", _named),
    "streams_too_many": Meaning(503, "too many streams are open", _named),
    "feeds_too_many": Meaning(503, "too many tenants are being watched", _named),
    "outcome_unknown": Meaning(503, "the request may or may not have taken effect: retry with the same key", _every),
    "storage_full": Meaning(
        507, "the disk of the server is nearly full: what stores something new is turned away", _changing
    ),
    "timed_out": Meaning(504, "the storage did not answer in time: retry with the same key", _every),
}
RETRIED: Final = ("operation_conflict", "operation_table_full")
"""The refusals of the kernel that every route with an Idempotency-Key may give."""
UNKNOWN: Final = frozenset(("internal_error", "outcome_unknown", "timed_out"))
"""After these the request may or may not have taken effect."""


def status_of(reason: str) -> int:
    """Return the status that a reason is answered with."""
    return REASONS[reason].status if reason in REASONS else STATUSES.get(reason, 409)


def meaning_of(reason: str) -> str:
    """Return what a reason means, in one sentence."""
    if reason in REASONS:
        return REASONS[reason].says
    first, _, _ = " ".join((REFUSALS[reason].__doc__ or "").split()).partition(". ")
    return first.removesuffix(".")


def reasons_of(operation: Operation) -> dict[int, tuple[str, ...]]:
    """Return the reasons that a route may give, by status."""
    given = [reason for reason, meaning in REASONS.items() if meaning.given_by(operation)]
    given += [*operation.reasons, *(RETRIED if operation.retry_key is not None else ())]
    found: dict[int, tuple[str, ...]] = {}
    for reason in dict.fromkeys(given):
        found[status_of(reason)] = (*found.get(status_of(reason), ()), reason)
    return dict(sorted(found.items()))
