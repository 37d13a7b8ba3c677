"""What a search for a text finds."""

from __future__ import annotations

from msgspec import Struct

from ..kernel.one_line import summary
from ..kernel.pool import Pool
from ..kernel.results import Hold
from .claim import Claim
from .keys import Item


class Found(Struct, frozen=True, kw_only=True):
    """What `search` has found, in groups."""

    pools: list[Pool]
    """Those whose id begins with the text, then those that contain it."""
    holds: list[Hold]
    """Those whose id begins with it."""
    entities: list[str]
    accounts: list[str]
    claims: list[Claim]
    """That of this key, ``type:value``."""
    items: list[Item]
    complete: bool
    """Whether the names of all pools were searched: one call searches some thousands."""

    __repr__ = summary
