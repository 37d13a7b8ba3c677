"""Keys and windows of resources as text, and back: equal values give the same text, different values different
texts.

Allowed are text, whole numbers, booleans, None, dates, times with their zone, UUIDs, enums, and tuples (also
NamedTuples), dataclasses, msgspec Structs and pydantic models of these. Floats, lists and dicts are refused, because
values that look alike may differ. Does not import pydantic: a model is recognised by its attributes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from datetime import UTC, date, datetime
from enum import Enum
from threading import RLock
from typing import Any, Final, Generic, TypeVar, get_args, get_origin
from uuid import UUID

import msgspec
from msgspec import Struct

from ..core.codec import canonical_json
from ..core.validation import invalid, text

Key = TypeVar("Key")
Window = TypeVar("Window")

PREFIX: Final = "~r/"
MAX_KIND: Final = 64
SHOWN: Final = 180
"""The number of characters of a key or window that fit into a pool id unchanged; longer ones are hashed."""
MAX_LENGTH: Final = 16 * 1024
MAX_DEPTH: Final = 32
_decoder_lock: Final = RLock()
"""msgspec crashes if two threads use a type for the first time at the same moment."""
_unprintable: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Name(Struct, frozen=True):
    """The names of one pair of key and window."""

    pool: str
    """The pool id."""
    full: tuple[str, str]
    """The texts of key and window, whatever their length."""

    @property
    def hashed(self) -> bool:
        """Whether key and window cannot be read from the pool id."""
        return max(map(len, self.full)) > SHOWN


class Names(Generic[Key, Window]):
    """Names the pools of one resource."""

    def __init__(self, cls: type[Any], base: type[Any]) -> None:
        self.kind = check_kind(getattr(cls, "kind", None))
        self._key, self._window = _types_of(cls, base)

    def name(self, key: Key, window: Window) -> Name:
        """Return the name of a key and window. Raise `InvalidRequest` if they do not have the resource's types."""
        full = (_text(key, self._key, "key"), _text(window, self._window, "window"))
        return Name(f"{self.prefix(full[0])}{_short(full[1])}", full)

    def prefix(self, key_text: str | None = None) -> str:
        """Return the beginning of the ids of all pools of this kind, or of those of one key."""
        begin = f"{PREFIX}{self.kind}/"
        return begin if key_text is None else f"{begin}{_short(key_text)}/"

    def key_text(self, key: Key) -> str:
        """Return the text of a key."""
        return _text(key, self._key, "key")

    def window_suffix(self, window: Window) -> str:
        """Return the end of the ids of all pools of one window."""
        return "/" + _short(_text(window, self._window, "window"))

    def texts(self, pool: str) -> tuple[str, str] | None:
        """Return the texts of key and window in a pool id; None if the id is hashed."""
        rest = pool.removeprefix(self.prefix())
        if rest.startswith("#"):
            return None
        _, end = json.JSONDecoder().raw_decode(rest)
        window = rest[end + 1 :]
        return None if window.startswith("#") else (rest[:end], window)

    def values(self, texts: tuple[str, str]) -> tuple[Key, Window]:
        """Decode key and window from their texts."""
        key: Key = _value(texts[0], self._key)
        window: Window = _value(texts[1], self._window)
        return key, window

    def values_of(self, body: str) -> tuple[Key, Window]:
        """Return key and window from the record that stores those too long for an id."""
        _, end = json.JSONDecoder().raw_decode(body, 1)
        return self.values((body[1:end], body[end + 1 : -1]))


def check_kind(kind: object) -> str:
    """Check a kind, a dotted word such as "inventory.unit", and return it."""
    found = text(kind, "kind", MAX_KIND)
    if "/" in found or found[0] == "~" or found != found.strip():
        raise invalid(
            "kind", "kind_malformed", "must be a word such as 'inventory.unit', without / and blanks around it"
        )
    return str(found)


def _types_of(cls: type[Any], base: type[Any]) -> tuple[Any, Any]:
    """Return the types of key and window that `class Seats(Resource[ShowId, None])` declares; Any if it declares none."""
    for each in cls.__mro__:
        for base_type in each.__dict__.get("__orig_bases__", ()):
            if get_origin(base_type) is base:
                key, window = get_args(base_type)
                return tuple(Any if isinstance(one, TypeVar) else one for one in (key, window))  # type: ignore[return-value]
    return Any, Any


def _short(found: str) -> str:
    return found if len(found) <= SHOWN else "#" + hashlib.blake2b(found.encode(), digest_size=16).hexdigest()


def _text(value: Any, kind: Any, field: str) -> str:
    """Return the canonical text of a value, verified by reading it back."""
    found = canonical_json(_plain(value, field, 1))
    if len(found) > MAX_LENGTH:
        raise invalid(
            field, f"{field}_too_long", f"has {len(found)} characters as JSON, at most {MAX_LENGTH} are allowed"
        )
    try:
        reads_back = _value(found, kind) == value
    except (msgspec.ValidationError, ValueError, TypeError):
        reads_back = False
    if not reads_back:
        raise invalid(field, f"{field}_mistyped", f"must be {_type_name(kind)}, not {type(value).__name__}")
    return found


def _value(found: str, kind: Any) -> Any:
    with _decoder_lock:
        value = msgspec.json.decode(found, type=kind, dec_hook=_model)
    return _tuples(value) if kind is Any else value


def _model(kind: type[Any], value: Any) -> Any:
    """Decode types that msgspec does not know."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise TypeError(f"{kind} is not a key")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _type_name(kind: Any) -> str:
    return "None" if kind in (None, type(None)) else getattr(kind, "__name__", str(kind))


def _plain(value: Any, field: str, depth: int) -> Any:
    """Return a value as JSON has it."""
    if depth > MAX_DEPTH:
        raise invalid(field, f"{field}_too_deep", f"is nested deeper than {MAX_DEPTH} levels")
    if value is None or type(value) is bool:
        return value
    if isinstance(value, Enum):
        return _plain(value.value, field, depth + 1)
    if type(value) is str:
        if _unprintable.search(value):
            raise invalid(field, f"{field}_unprintable", "must not contain control characters or lone surrogates")
        return value
    if type(value) is int:
        if abs(value) >= 2**63:
            raise invalid(field, f"{field}_out_of_range", "holds a whole number beyond 64 bits")
        return value
    if isinstance(value, datetime):  # the same moment in two zones is one key
        return value if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date | UUID):
        return value
    if isinstance(value, tuple):  # a NamedTuple is read back by position
        return [_plain(item, field, depth + 1) for item in value]
    return {name: _plain(item, field, depth + 1) for name, item in _fields(value, field)}


def _fields(value: Any, field: str) -> list[tuple[str, Any]]:
    """Return the fields of a record, by the names under which they are read back."""
    if isinstance(value, Struct):
        config = value.__struct_config__
        tag = [] if config.tag is None else [(str(config.tag_field), config.tag)]
        return tag + [(one.encode_name, getattr(value, one.name)) for one in msgspec.structs.fields(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
    names = getattr(type(value), "model_fields", None)
    if isinstance(names, dict) and hasattr(type(value), "model_validate"):
        return [(name, getattr(value, name)) for name in names]
    raise invalid(
        field,
        f"{field}_unsupported",
        f"holds a {type(value).__name__}: use text, whole numbers, None, dates, UUIDs, enums, or a tuple, dataclass, "
        "msgspec Struct or pydantic model of these",
    )
