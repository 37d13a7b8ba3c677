"""Erased names that must still be recognised: an account that used units when it was erased, and a claim that was taken.

Theory of operation. Such a name is replaced by a keyed hash of it, under the secret of the database. A command that names an account
or a claim is decided on both: on the name, and on what an erasure would have made of it. The hash does not reveal the name,
but a command that names the account or the claim again is recognised.

*Which names exist* is stored with the limits: `Limits.erased_accounts` and `Limits.erased_claims`. Every transaction compares their version
behind its locks, so a transaction that knows of no erased names cannot follow one that has erased a name. While both are
0, `names_of` returns None, and every command is decided as if there were no erasure.

*Accounts* have numbered stubs. The sums of an account run through sealed entries, so the tallies of an account that is erased, used
again and erased again cannot become one: each erasure of an account in use gives it the next stub, `erased:<hash>`,
`erased:<hash>-1` and so on. What an account uses is the sum over the name and all stubs. The stubs of
one account begin alike, so the sum is the same whether the name or a stub is given. A stub does not reveal the name.

*Claims* need one: a key is taken once at a time. The pool of a key that is taken gets the id `erased_claim` of its id; a pool
that is not taken gets a random one. Both stay in the lane of the pool's entries: a lane has everything about a pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

from .bounds import Limits
from .keyed import CLAIMS, ERASED_CLAIM, keyed
from .lanes import lane_of_pool
from .personal import ERASED
from .reading import AccountUsage

MOST_STUBS: Final = 50
"""The most such stubs of one account: how often it can be erased while it uses units."""
_STUB: Final = re.compile(r"(erased:[0-9a-f]{32})(?:-([0-9]{1,2}))?")
_ERASED_CLAIMS: Final = CLAIMS + ERASED_CLAIM


class ErasedNames(Struct, frozen=True):
    """The secret and counts that recognise erased names in one database."""

    secret: bytes
    lanes: int
    accounts: int
    """How many stubs an account may have by now."""
    claims: bool
    """Whether a claim was erased while it was taken."""

    def others(self, tenant: str, account: str) -> tuple[str, ...]:
        """Return the other names under which units of this account are counted."""
        if not self.accounts:
            return ()
        known = _STUB.fullmatch(account)
        first = erased_account(self.secret, tenant, account) if known is None else known[1]
        every = [stub_of(first, n) for n in range(self.accounts)]
        return tuple(name for name in every if name != account)

    def claim(self, tenant: str, pool: str) -> str | None:
        """Return the id that the pool of this claim has if it was erased while it was taken; None: there is none."""
        if not self.claims or not is_claim(pool):
            return None
        return erased_claim(self.secret, tenant, pool, self.lanes)


def names_of(limits: Limits, secret: bytes, lanes: int) -> ErasedNames | None:
    """Return the names that recognise erased ones under these limits; None if there are no erased names."""
    if not limits.erased_accounts and not limits.erased_claims:
        return None
    return ErasedNames(secret, lanes, limits.erased_accounts, bool(limits.erased_claims))


@lru_cache(maxsize=4_096)
def erased_account(secret: bytes, tenant: str, account: str) -> str:
    """Return the first stub of an account."""
    return ERASED + keyed(secret, b"holdkit.account", tenant, account)


def stub_of(first: str, n: int) -> str:
    """Return the nth stub of an account, from 0 on."""
    return f"{first}-{n}" if n else first


def stubs_in(text: str, first: str) -> set[str]:
    """Return the stubs of an account that a text names."""
    return {found[0] for found in _STUB.finditer(text) if found[1] == first}


def total_usage(pages: Iterable[Iterable[AccountUsage]], limit: int) -> list[AccountUsage]:
    """Sum the usage of an account by pool over pages, each of one of its names, in order of pool and cut off at the same limit."""
    sums: dict[str, AccountUsage] = {}
    for page in pages:
        for one in page:
            known = sums.get(one.pool)
            sums[one.pool] = one if known is None else structs.replace(one, used=known.used + one.used)
    return [sums[pool] for pool in sorted(sums)[:limit]]


@lru_cache(maxsize=4_096)  # one hash for every lane, on average
def erased_claim(secret: bytes, tenant: str, pool: str, lanes: int) -> str:
    """Return the id of a claim's pool after it was erased: a keyed hash of the id that it had, in the same lane."""
    return _in_lane(lambda n: keyed(secret, b"holdkit.erased", tenant, pool, str(n)), tenant, pool, lanes)


def is_claim(pool: str) -> bool:
    """Return whether a pool is that of a claim which was not erased."""
    return pool.startswith(CLAIMS) and not is_erased_claim(pool)


def is_erased_claim(pool: str) -> bool:
    """Return whether a pool has the id of an erased claim."""
    return pool.startswith(_ERASED_CLAIMS)


def _in_lane(digits: Callable[[int], str], tenant: str, pool: str, lanes: int) -> str:
    lane, n = lane_of_pool((tenant, pool), lanes), 0
    while True:
        found = _ERASED_CLAIMS + digits(n)
        if lane_of_pool((tenant, found), lanes) == lane:
            return found
        n += 1
