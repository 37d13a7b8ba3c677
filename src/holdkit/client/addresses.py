"""Ids in paths: percent-encoded whole, slashes too."""

from __future__ import annotations

from urllib.parse import quote

from ..core.validation import invalid, text


def path_of(kind: str, id: str, verb: str | None = None) -> str:
    """`/v1/pools/show%2F42`."""
    path = f"/v1/{kind}/{_part(id)}"
    return path if verb is None else f"{path}/{verb}"


def record_path(kind: str, id: str) -> str:
    """`/v1/records/kind/id`."""
    return f"/v1/records/{_part(text(kind, 'kind', 64))}/{_part(text(id, 'id', 512))}"


def _part(id: str) -> str:
    if id in (".", ".."):
        raise invalid("id", "id_unaddressable", "cannot be part of an address: every proxy would resolve it")
    return quote(id, safe="")
