# Generated from ../_async/finding.py by tools/gen_sync.py: do not edit.
"""Finding a text in everything that has a name, with bounded work.

Each group is a few rows of an index from where the text would be. Only the names of pools are also searched for a part of them, some
thousands of names at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...core.validation import text, whole
from ...errors import InvalidRequest
from ...kernel.pool import Pool
from ...kernel.results import Hold
from ..claim import Claim
from ..finding import Found

if TYPE_CHECKING:
    from .kernel import Kernel

SCANNED: Final = 20_000
"""Pools that one call searches for a part of a name before it answers with what it has found."""
_HEX: Final = re.compile(r"[0-9a-f]{1,32}")


class Finder:
    """Searches one tenant; if `narrowed` is given, only the pools that it leaves, and the holds that the kernel lists: claims, items,
    entities and accounts would tell of others."""

    def __init__(self, kernel: Kernel, narrowed: Callable[[str], tuple[str, ...]] | None = None) -> None:
        self._kernel, self._narrowed = kernel, narrowed

    def find(self, wanted: str, limit: int) -> Found:
        """Find a text: up to `limit` of each kind."""
        text(wanted, "text", 512)
        whole(limit, "limit", 1, 1_000)
        pools, after = self.pools(wanted, archived=True, limit=limit)
        if len(pools) < limit:
            others, after = self.pools(contains=wanted, archived=True, limit=limit)
            known = {pool.id for pool in pools}
            pools = [*pools, *(pool for pool in others if pool.id not in known)][:limit]
        kernel, everything = self._kernel, self._narrowed is None
        claim = self._claim(wanted) if everything else None
        return Found(
            pools=pools,
            holds=self._holds(wanted, limit),
            entities=kernel.admin.entities(wanted, limit=limit) if everything else [],
            accounts=kernel.accounts.list(wanted, limit=limit) if everything else [],
            claims=[] if claim is None else [claim],
            items=kernel.items.list(wanted, limit=limit) if everything else [],
            complete=after is None or len(pools) == limit,
        )

    def pools(
        self, prefix: str = "", *, contains: str = "", archived: bool = False, after: str = "", limit: int = 100
    ) -> tuple[list[Pool], str | None]:
        """Find pools by prefix and by a part of their name; return them and where to continue."""
        found: list[Pool] = []
        reached: str | None = None
        for one in (prefix,) if self._narrowed is None else self._narrowed(prefix):
            left = limit - len(found)
            if not left:  # the page is full, and pools of another prefix may follow
                return found, found[-1].id
            if contains:
                more, reached = self._containing(one, contains, archived, after, left)
            else:
                more, reached = self._page(one, archived, after, left)
            found += more
            if reached is not None:
                break
        return found, reached

    def _page(self, prefix: str, archived: bool, after: str, limit: int) -> tuple[list[Pool], str | None]:
        pools = self._kernel.pools(prefix, archived=archived, after=after, limit=limit)
        return pools, pools.next

    def _containing(
        self, prefix: str, contains: str, archived: bool, after: str, limit: int
    ) -> tuple[list[Pool], str | None]:
        """Find pools whose name contains a text, ignoring case. An incomplete search returns where to continue."""
        wanted, found = contains.casefold(), list[Pool]()
        for _ in range(SCANNED // 1_000):
            page = self._kernel.pools(prefix, archived=archived, after=after, limit=1_000)
            for pool in page:
                if wanted in pool.id.casefold():
                    found.append(pool)
                    if len(found) == limit:
                        return found, pool.id
            if page.next is None:
                return found, None
            after = page.next
        return found, after

    def _holds(self, wanted: str, limit: int) -> list[Hold]:
        """Return the first holds whose id begins with the text, written with dashes or without."""
        begin = wanted.replace("-", "").lower()
        if _HEX.fullmatch(begin) is None:
            return []
        first = f"{max(0, int(begin.ljust(32, '0'), 16) - 1):032x}" if begin.strip("0") else ""
        found = self._kernel.holds(after=first, limit=limit)
        return [one for one in found if one.id.startswith(begin)]

    def _claim(self, wanted: str) -> Claim | None:
        """Return the claim of a key, if the text is one."""
        if ":" not in wanted:
            return None
        try:
            return self._kernel.claims.get(*wanted.split(":", 1))
        except InvalidRequest:  # no key looks like this
            return None
