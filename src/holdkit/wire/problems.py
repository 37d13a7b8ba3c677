"""Refusals and errors."""

from __future__ import annotations

from msgspec import Struct


class ProblemAnswer(Struct, kw_only=True):
    """RFC 9457, with a stable `reason`, and `effect`: none, or unknown if the request may have been carried out."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    effect: str
    request_id: str
    server_time: str
