"""Ids in paths: percent-encoded whole, slashes too."""

from __future__ import annotations

from urllib.parse import quote

from ..core.validation import invalid


def path_of(kind: str, id: str, verb: str | None = None) -> str:
    """`/v1/pools/show%2F42`."""
    if id in (".", ".."):
        raise invalid("id", "id_unaddressable", "cannot be part of an address: every proxy would resolve it")
    path = f"/v1/{kind}/{quote(id, safe='')}"
    return path if verb is None else f"{path}/{verb}"
