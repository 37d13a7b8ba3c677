"""The names that an erasure gives to what must not be lost: to an account that uses units, and to the pools of claims. Pure.

`core.erased_names` says what they look like, and how they are recognised; here it is decided which one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from typing import Final, TypeAlias

from msgspec import structs

from .entries import Action, Effect, Entry
from .erased_names import MOST_STUBS, ErasedNames, erased_account, erased_claim, stub_of
from .model import Pool, StoredHold
from .personal import NAMES, Path, See, fields, is_stub, kind_of, rewrite
from .values import invalid

StoreNames: TypeAlias = Callable[[str, int], None]
"""Stores one of `bounds.ERASED_NAMES` with the limits, and returns when it is committed."""
RemovePool: TypeAlias = Callable[[str], None]
"""Removes a pool, unless it is in use: with an entry, so that its fences are never given again."""
NO_NAMES: Final = ErasedNames(b"", 1, 0, False)


class NewNames:
    """The names that one erasure gives."""

    def __init__(
        self,
        tenant: str,
        account: str,
        stored: ErasedNames = NO_NAMES,
        store: StoreNames | None = None,
        nonce: bytes = b"",
        remove: RemovePool | None = None,
    ) -> None:
        self._tenant, self._account = tenant, account
        self._nonce = nonce
        """The random key for the new ids of pools whose claims are not taken."""
        self.stored = stored
        """What recognises erased names, as others know it."""
        self._store, self._remove = store, remove
        self.ids: dict[str, str] = {}
        """The new ids of those pools of erased claims that have one by now."""

    def store(self, limit: str, value: int) -> None:
        """Store with the limits, for all processes, that names exist that must be recognised. Not within a transaction."""
        assert self._store is not None, "only whoever can store them may need them"
        self._store(limit, value)
        accounts = value if limit == "erased_accounts" else self.stored.accounts
        self.stored = structs.replace(
            self.stored, accounts=accounts, claims=self.stored.claims or limit == "erased_claims"
        )

    # Accounts

    @property
    def first_stub(self) -> str:
        """The name that the account got, or would get, when it was first erased while it used units."""
        return erased_account(self.stored.secret, self._tenant, self._account)

    def stubs(self) -> list[str]:
        """Return every name that the account may have got when it was erased."""
        return [stub_of(self.first_stub, n) for n in range(self.stored.accounts)]

    def next_stub(self, known: Collection[str]) -> str | None:
        """Return the new name of the account, which uses units: its first stub that no row or entry names yet. None if that is one more
        than others know of: `store` stores it, and nothing must be replaced before."""
        n = next(n for n in count() if stub_of(self.first_stub, n) not in known)
        if n >= MOST_STUBS:
            why = (
                f"was erased {n} times while it used units, and that is the most: it can be erased again when it uses nothing "
                "under its own name. Release or return what it has come to use since it was last erased; what it used before does "
                "not matter, because that is counted under other names"
            )
            raise invalid("account", "account_erased_too_often", why)
        return stub_of(self.first_stub, n) if n < self.stored.accounts else None

    # Claims

    def taken_id(self, pool: str) -> str:
        """Return the id of a claim's pool if the claim is taken when it is erased."""
        return erased_claim(self.stored.secret, self._tenant, pool, self.stored.lanes)

    def random_id(self, pool: str) -> str:
        """Return the id that replaces a claim's pool where the claim need not be recognised; it is stable throughout one run."""
        return erased_claim(self._nonce, self._tenant, pool, self.stored.lanes)

    def remove(self, pool: str) -> None:
        """Remove the pool of a claim that is not taken: under another id it would be useless. Not within a transaction."""
        assert self._remove is not None, "only whoever can remove pools may have any"
        self._remove(pool)

    def rename(self, pool: str, *, taken: bool) -> None:
        """Decide which id the pool of an erased claim gets: one by which the claim is recognised, or a random one."""
        self.ids[pool] = self.taken_id(pool) if taken else self.random_id(pool)

    def entry(self, entry: Entry, stub: str) -> Entry:
        """Return the entry with the pools' new ids and without their keys; the same object if it names none of them."""
        return rewritten(entry, lambda path, value: self._value(entry, path, value, stub))

    def hold(self, hold: StoredHold, stub: str) -> StoredHold:
        """Return a stored hold with the pools' new ids and without their keys."""
        after = self.entry(entry_of_hold(hold), stub).hold
        assert after is not None
        return after

    def pool(self, pool: Pool, stub: str) -> Pool:
        """Return a stored pool with its new id and without its key."""
        return self.entry(entry_of_pool(pool), stub).effects[0].pool

    def _value(self, entry: Entry, path: Path, value: str, stub: str) -> str:
        kind, parts = kind_of(path), path.split(".")
        if kind in NAMES:
            return self.ids.get(value, value)
        if is_stub(path, value):
            return value
        if parts[0] == "effects" and kind in ("label", "entity"):
            return stub if entry.effects[int(parts[1])].pool.id in self.ids else value
        if entry.refused is not None and kind == "label":
            return stub if entry.refused.legs[int(parts[2])].pool in self.ids else value
        return value


def is_taken(pool: Pool | None) -> bool:
    """Return whether a claim is taken, given its pool: then it must still be recognised."""
    return pool is not None and bool(pool.held or pool.consumed)


def rewritten(entry: Entry, value_of: See) -> Entry:
    """Replace each personal field of an entry by its `value_of`; return the same object if nothing changes."""
    values = {path: value for path, was in fields(entry).items() if (value := value_of(path, was)) != was}
    return rewrite(entry, values) if values else entry


def entry_of_hold(hold: StoredHold) -> Entry:
    """Return an entry that would write the row of a hold."""
    return Entry(0, Action.HOLD_HELD, hold.id, hold.tenant, hold=hold, actor=hold.actor)


def entry_of_pool(pool: Pool) -> Entry:
    """Return an entry that would write the row of a pool."""
    return Entry(pool.slot, Action.POOL_REPAIRED, pool.id, pool.tenant, (Effect(pool),))
