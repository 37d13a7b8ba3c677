"""Parameters as PostgreSQL's binary format wants them, and results as Python wants them.

Only the few types our statements use. Arrays are made by hand because a batch has dozens of them with hundreds of items
each; a property test proves them equal to psycopg's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

_HEAD: Final = Struct(">iiiii").pack
_LENGTH: Final = Struct(">i").pack
_NULL: Final = _LENGTH(-1)
_BIGINT: Final = Struct(">q").pack
_INT: Final = Struct(">i").pack
_LENGTHS: Final = [_LENGTH(size) for size in range(2_048)]
"""Of short texts: looked up faster than packed."""


def _array(oid: int, items: list[bytes], nulls: bool) -> bytes:
    count = len(items)
    if not count:
        return _HEAD(0, 0, oid, 0, 0)[:12]
    return _HEAD(1, 1 if nulls else 0, oid, count, 1) + b"".join(items)


@lru_cache(maxsize=64)
def _packer(code: str, count: int) -> Callable[..., bytes]:
    """Packs so many numbers, each behind its length."""
    return Struct(">" + f"i{code}" * count).pack


def _numbers(oid: int, code: str, size: int, one: Callable[[int], bytes]) -> Callable[[Sequence[int | None]], bytes]:
    prefix = _LENGTH(size)

    def encode(values: Sequence[int | None]) -> bytes:
        if None in values:
            return _array(oid, [_NULL if value is None else prefix + one(value) for value in values], True)
        count = len(values)
        if not count:
            return _array(oid, [], False)
        flat: list[Any] = [size] * (2 * count)
        flat[1::2] = values
        return _HEAD(1, 0, oid, count, 1) + _packer(code, count)(*flat)

    return encode


def text_array(values: Sequence[str | None]) -> bytes:
    """text[]."""
    items: list[bytes] = []
    nulls = False
    lengths, short = _LENGTHS, len(_LENGTHS)
    for value in values:
        if value is None:
            items.append(_NULL)
            nulls = True
        else:
            raw = value.encode()
            size = len(raw)
            items.append(lengths[size] if size < short else _LENGTH(size))
            items.append(raw)
    if not items:
        return _array(25, items, nulls)
    return _HEAD(1, 1 if nulls else 0, 25, len(values), 1) + b"".join(items)


def uuid_array(values: Sequence[str]) -> bytes:
    """uuid[], of 32 hex digits each."""
    prefix = _LENGTHS[16]
    return _array(2950, [prefix + bytes.fromhex(value) for value in values], False)


def bool_array(values: Sequence[bool]) -> bytes:
    """bool[]."""
    true, false = _LENGTHS[1] + b"\1", _LENGTHS[1] + b"\0"
    return _array(16, [true if value else false for value in values], False)


ENCODERS: Final[dict[str, tuple[int, Callable[[Any], bytes]]]] = {
    "int": (23, _INT),
    "bigint": (20, _BIGINT),
    "bool": (16, lambda value: b"\1" if value else b"\0"),
    "text": (25, str.encode),
    "uuid": (2950, bytes.fromhex),
    "int[]": (1007, _numbers(23, "i", 4, _INT)),
    "bigint[]": (1016, _numbers(20, "q", 8, _BIGINT)),
    "bool[]": (1000, bool_array),
    "text[]": (1009, text_array),
    "uuid[]": (2951, uuid_array),
}
"""What a parameter is cast to: its type's number, and how it is written."""


def encode(types: Sequence[str], values: Sequence[Any]) -> list[bytes | None]:
    """The parameters of one statement."""
    return [None if value is None else ENCODERS[kind][1](value) for kind, value in zip(types, values, strict=True)]


_DECODERS: Final[dict[int, Callable[[bytes], Any]]] = {
    16: lambda raw: raw == b"t",
    20: int,
    21: int,
    23: int,
    1700: int,
}


def decoder(oid: int) -> Callable[[bytes], Any]:
    """How a column of this type is read from its text form."""
    return _DECODERS.get(oid, bytes.decode)
