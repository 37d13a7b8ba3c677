"""Keys and items: which pool each has, the legs that take one, and what `hk.items` returns. Pure functions.

The pool of a key is named by a hash, so that any text can be a key; that of an item by the item's own id, so that
items can be listed in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from ..core.face_legs import FaceLeg
from ..core.keyed import CLAIM, CLAIMS, ERASED_CLAIM, ITEMS, claim_id
from ..core.model import Leg, Pool
from ..core.validation import invalid, text
from ..core.values import MAX_OP
from ..errors import PartOfHold
from ..kernel.arguments import Legs
from ..kernel.one_line import MAX_NAMES, line, shortened

WINDOWED: Final = ("~rates/", "~budgets/", "~calendar/")
"""How the ids of pools by window begin."""
MAX_TYPE: Final = 64
MAX_VALUE: Final = 1_024
MAX_ITEM: Final = 500


def key_of(type: object, value: object) -> str:
    """Return `type:value`, exactly as written: nothing is trimmed or folded."""
    kind = text(type, "type", MAX_TYPE)
    if ":" in kind:
        raise invalid("type", "type_malformed", "must not contain a colon: that is where the value begins")
    return f"{kind}:{text(value, 'value', MAX_VALUE)}"


def split_key(key: object) -> tuple[str, str]:
    """Split a key into type and value."""
    found = text(key, "key", MAX_TYPE + 1 + MAX_VALUE)
    kind, colon, value = found.partition(":")
    if not colon:
        raise invalid("key", "key_malformed", "must be a type and a value with a colon between them")
    key_of(kind, value)
    return kind, value


def claim_pool(id: object) -> str:
    """Return the pool behind a claim's id."""
    found = text(id, "id", MAX_ITEM)
    digits = found.removeprefix(ERASED_CLAIM if found.startswith(ERASED_CLAIM) else CLAIM)
    if len(digits) != 32 or digits == found or set(digits) - set("0123456789abcdef"):
        raise invalid("id", "id_malformed", "must be a claim's id: res_ and 32 hex digits")
    return CLAIMS + found


def item_pool(item: object) -> str:
    """Return the pool behind an item."""
    return ITEMS + text(item, "item", MAX_ITEM)


def claim(type: str, value: str) -> Leg:
    """Return a key that only one holder can have, as a leg of a hold."""
    name = key_of(type, value)
    return FaceLeg(CLAIMS + claim_id(name), 1, 1, label=name)


def items(*ids: str) -> Legs:
    """Return items that were added with `hk.items.add`, as legs of a hold."""
    return item_legs(ids)


def item_legs(ids: Iterable[str]) -> Legs:
    """Return items as legs of a hold, sorted, so that the order of `ids` does not matter."""
    pools = [item_pool(item) for item in listed(ids)]
    if not pools:
        raise invalid("items", "items_required", "must name at least one item")
    if len(set(pools)) < len(pools):
        raise invalid("items", "item_twice", "names an item twice")
    return Legs([FaceLeg(pool, label=pool.removeprefix(ITEMS)) for pool in sorted(pools)])


def listed(values: Any, field: str = "items", what: str = "item ids") -> list[Any]:
    """Return the elements of a list that a caller gave."""
    malformed = invalid(field, f"{field}_malformed", f"must be a list of {what}")
    if isinstance(values, str):
        raise malformed
    try:
        return list(values)
    except TypeError:
        raise malformed from None


class Item(Struct, frozen=True):
    """One item, as it was when it was read."""

    id: str
    state: Literal["available", "held", "confirmed", "missing"]
    hold: str | None = None
    """The id of the hold that holds or has confirmed it; never its token."""
    yours: bool | None = None
    """Whether the token that was given is that hold's; None if no token was given."""

    def to_dict(self) -> dict[str, Any]:
        """Return the item, ready for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        by = "" if self.hold is None else f" by {self.hold}"
        return line("Item", shortened(self.id, MAX_NAMES), f"{self.state}{by}")


def item_of(id: str, pool: Pool | None) -> Item:
    """Return what a pool says about its item."""
    if pool is None:
        return Item(id, "missing")
    if pool.held:
        return Item(id, "held", pool.holder)
    return Item(id, "confirmed", pool.holder) if pool.consumed else Item(id, "available")


def item_name(pool: str) -> str:
    """Return the item behind a pool."""
    return pool.removeprefix(ITEMS)


def part_of_hold(subject: str, hold: str) -> PartOfHold:
    """Return the refusal for something whose hold has other legs too."""
    return PartOfHold(
        f"{subject!r} ends with hold {hold}: confirm, release or return that hold instead", subject=subject, hold=hold
    )


def op_of_attempt(op: str | None, attempt: int) -> str | None:
    """Return the operation id of an attempt. Its refusal is recorded too, so a retry makes the same attempts, with the same results."""
    if op is None or not attempt:
        return op
    text(op, "op", MAX_OP)
    return f"~best/{attempt}/{hashlib.blake2b(op.encode(), digest_size=16).hexdigest()}"


def standing_for(items: Iterable[Leg]) -> str:
    """Return a hold id that stands for these items where an operation names them instead of a hold."""
    digest = hashlib.blake2b(digest_size=16, person=b"holdkit.items")
    for leg in items:
        name = leg.pool.encode()
        digest.update(len(name).to_bytes(4) + name)
    return digest.hexdigest()
