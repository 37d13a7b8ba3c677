"""What every web framework needs of a request: its correlation id, the caller's retry key, and the answer to an error."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ..core.validation import invalid
from ..errors import EngineError, HoldkitError
from ..kernel.arguments import current
from ..wire.fields import at
from ..wire.headers import given_id, retry_key, trace_id
from ..wire.problems import Problem, problem_body, problem_headers, problem_of

if TYPE_CHECKING:
    from ..faces._async.kernel import AsyncKernel
    from ..faces._sync.kernel import Kernel

log = logging.getLogger("holdkit.contrib")

GetHeader = Callable[[str], str | None]
"""Gets a header by its name in small letters, None if it is not there."""
MAX_OP: Final = 255


def request_id_of(header: GetHeader) -> str:
    """Return the id of a request: `X-Request-Id` or `X-Correlation-Id`, else the trace id of `traceparent`, else a new one.

    An id from the caller is ignored unless it is fit for a journal and a log: 1 to 64 letters, digits, `.`, `_`, `-`.
    """
    for name in ("x-request-id", "x-correlation-id"):
        given = given_id(_bytes(header(name)))
        if given is not None:
            return given
    return trace_id(_bytes(header("traceparent"))) or secrets.token_hex(8)


def operation_id_of(header: GetHeader) -> str | None:
    """Return the operation id of a request that carries an `Idempotency-Key`: the key, together with the actor of the context.

    A recorded answer has the hold's token, so it is for the actor who asked. Another actor who sends the same key gets an
    operation of its own.
    """
    key = retry_key(_bytes(header("idempotency-key")))
    if key is None:
        return None
    actor = current().actor or "anonymous"
    actor = actor.replace("%", "%25").replace("/", "%2F")  # else key b/c of user:a would be key c of user:a/b
    scoped = f"{actor}/{key}"
    if len(scoped) <= MAX_OP:
        return scoped
    return hashlib.sha256(scoped.encode()).hexdigest()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1", "replace")


class ProblemParts(NamedTuple):
    """An answer to a request that did not succeed, before it is a framework's response."""

    status: int
    headers: dict[str, str]
    body: bytes
    problem: Problem


def answer_to(error: Exception, request_id: str, kernel: AsyncKernel | Kernel | None) -> ProblemParts:
    """Return the answer that Holdkit's own server gives to this error. Log errors that the caller did not cause."""
    problem = problem_of(error)
    if problem.status == 500:
        log.error(
            "request %s failed",
            request_id,
            exc_info=error,
            extra={"event": "framework_request_failed", "request_id": request_id},
        )
    elif isinstance(error, EngineError):
        log.warning(
            "request %s: %s", request_id, error, extra={"event": "framework_storage_failed", "request_id": request_id}
        )
    headers = {name.decode(): value.decode("latin-1") for name, value in problem_headers(problem)}
    headers |= {"x-request-id": request_id, "x-content-type-options": "nosniff", "cache-control": "no-store"}
    return ProblemParts(problem.status, headers, problem_body(problem, request_id, _time_of(kernel)), problem)


def _time_of(kernel: AsyncKernel | Kernel | None) -> object:
    try:
        return at(time.time_ns() // 1000 if kernel is None else kernel._executor.now())
    except HoldkitError:
        return at(time.time_ns() // 1000)


def checked_tenant(name: object) -> str:
    """Check what an application's `tenant` function returned. It must name a tenant, because all callers would share the default one."""
    if not isinstance(name, str) or not name:
        raise invalid("tenant", "tenant_required", "the application named no tenant for this request")
    return name
