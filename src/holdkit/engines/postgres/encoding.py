"""Statements: their parameters in PostgreSQL's binary format, and their results as Python values.

Only the few types that our statements use. Arrays are encoded by hand, because a batch has dozens of them with hundreds of items
each; a property test proves the encoding equal to psycopg's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec.structs import force_setattr

_HEAD: Final = Struct(">iiiii").pack
_LENGTH: Final = Struct(">i").pack
_NULL: Final = _LENGTH(-1)
_BIGINT: Final = Struct(">q").pack
_INT: Final = Struct(">i").pack
_LENGTHS: Final = [_LENGTH(size) for size in range(2_048)]
"""The lengths of short texts: looked up faster than packed."""


_ONE: Final = {(oid, null): _HEAD(1, int(null), oid, 1, 1) for oid in (20, 23, 25) for null in (False, True)}
"""The heads of arrays with one item, which a lone caller sends by the dozen."""


def _array(oid: int, items: list[bytes], nulls: bool) -> bytes:
    count = len(items)
    if not count:
        return _HEAD(0, 0, oid, 0, 0)[:12]
    return _HEAD(1, 1 if nulls else 0, oid, count, 1) + b"".join(items)


@lru_cache(maxsize=64)
def _packer(code: str, count: int) -> Callable[..., bytes]:
    """Return a function that packs `count` numbers, each after its length."""
    return Struct(">" + f"i{code}" * count).pack


def _numbers(oid: int, code: str, size: int, one: Callable[[int], bytes]) -> Callable[[Sequence[int | None]], bytes]:
    prefix = _LENGTH(size)

    def item(value: int | None) -> bytes:
        return _NULL if value is None else prefix + one(value)

    def encode(values: Sequence[int | None]) -> bytes:
        same = _all_same(oid, values, item)
        if same is not None:
            return same
        if None in values:
            return _array(oid, list(map(item, values)), True)
        count = len(values)
        flat: list[Any] = [size] * (2 * count)
        flat[1::2] = values
        return _HEAD(1, 0, oid, count, 1) + _packer(code, count)(*flat)

    return encode


def _all_same(oid: int, values: Sequence[Any], item: Callable[[Any], bytes]) -> bytes | None:
    """Encode an array that is empty or whose items are all equal, as in most columns of a batch; return None for any other."""
    count = len(values)
    if not count:
        return _array(oid, [], False)
    first = values[0]
    if count == 1:
        return _ONE[oid, first is None] + item(first)
    if values.count(first) != count:
        return None
    return _HEAD(1, 1 if first is None else 0, oid, count, 1) + item(first) * count


def _text(value: str | bytes | None) -> bytes:
    if value is None:
        return _NULL
    raw = value if isinstance(value, bytes) else value.encode()
    return _LENGTH(len(raw)) + raw


def text_array(values: Sequence[Any]) -> bytes:
    """Encode text[] from texts, or from their UTF-8 bytes where the caller has those already."""
    same = _all_same(25, values, _text)
    if same is not None:
        return same
    if None in values:
        return _array(25, list(map(_text, values)), True)
    raws: list[bytes] = list(values) if type(values[0]) is bytes else [value.encode() for value in values]
    try:
        lengths = [_LENGTHS[len(raw)] for raw in raws]
    except IndexError:
        lengths = [_LENGTH(len(raw)) for raw in raws]
    flat = raws * 2
    flat[::2], flat[1::2] = lengths, raws
    return _HEAD(1, 0, 25, len(raws), 1) + b"".join(flat)


def uuid_array(values: Sequence[str | None]) -> bytes:
    """Encode uuid[] from texts of 32 hex digits each."""
    prefix = _LENGTHS[16]
    items = [_NULL if value is None else prefix + bytes.fromhex(value) for value in values]
    return _array(2950, items, None in values)


def bool_array(values: Sequence[bool]) -> bytes:
    """Encode bool[]."""
    true, false = _LENGTHS[1] + b"\1", _LENGTHS[1] + b"\0"
    return _array(16, [true if value else false for value in values], False)


ENCODERS: Final[dict[str, tuple[int, Callable[[Any], bytes]]]] = {
    "int": (23, _INT),
    "bigint": (20, _BIGINT),
    "bool": (16, lambda value: b"\1" if value else b"\0"),
    "boolean": (16, lambda value: b"\1" if value else b"\0"),
    "text": (25, lambda value: value if type(value) is bytes else value.encode()),
    "varchar": (25, str.encode),
    "uuid": (2950, bytes.fromhex),
    "int[]": (1007, _numbers(23, "i", 4, _INT)),
    "bigint[]": (1016, _numbers(20, "q", 8, _BIGINT)),
    "bool[]": (1000, bool_array),
    "text[]": (1009, text_array),
    "uuid[]": (2951, uuid_array),
}
"""By the type that a parameter is cast to: its oid, and its encoder."""


class Sql(msgspec.Struct, frozen=True):
    """One statement: its text, and what each parameter is cast to."""

    name: str
    text: str
    types: tuple[str, ...] = ()
    one: OneRow | None = None
    """This statement in its form for one row."""
    oids: Sequence[int] = ()
    """Of the types, as are the encoders."""
    encoders: Sequence[Callable[[Any], bytes]] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "oids", [ENCODERS[kind][0] for kind in self.types])
        force_setattr(self, "encoders", [ENCODERS[kind][1] for kind in self.types])

    def form_for(self, parameters: Sequence[Any]) -> tuple[Sql, Sequence[Any]]:
        """Return the form for one row and its parameters, if there is one row; else this form and these parameters."""
        if self.one is not None and (row := self.one.row(parameters)) is not None:
            return self.one.sql, row
        return self, parameters

    def encode(self, parameters: Sequence[Any]) -> tuple[Sql, list[bytes | None]]:
        """Return the form that is sent for these parameters, and its parameters in binary format."""
        sql, values = self.form_for(parameters)
        return sql, [
            None if value is None else encoder(value) for encoder, value in zip(sql.encoders, values, strict=True)
        ]


class OneRow(msgspec.Struct, frozen=True):
    """A statement whose columns are not arrays, because there is one row."""

    sql: Sql
    firsts: tuple[int, ...]
    """The indexes of the first columns: each must have one row."""
    counted: bool
    """The last two parameters are the number of rows, and whether another number raises; this form can be used only if it does."""

    def row(self, parameters: Sequence[Any]) -> list[Any] | None:
        """Return the parameters of this form, if there is one row."""
        for index in self.firsts:
            if len(parameters[index]) != 1:
                return None
        if self.counted and not parameters[-1]:
            return None
        return [value[0] if type(value) is list else value for value in parameters[: len(self.sql.types)]]


def checksum(raw: bytes, start: int = 0) -> int:
    """Return a CRC-32 as PostgreSQL's int stores it, signed: it reveals a row that was changed by hand."""
    return (crc32(raw, start) ^ _SIGN) - _SIGN


_SIGN: Final = 1 << 31
_DECODERS: Final[dict[int, Callable[[bytes], Any]]] = {
    16: b"t".__eq__,
    20: int,
    21: int,
    23: int,
    1700: int,
}


def decoder(oid: int) -> Callable[[bytes], Any]:
    """Return the function that decodes the text of a column of this type."""
    return _DECODERS.get(oid, bytes.decode)
