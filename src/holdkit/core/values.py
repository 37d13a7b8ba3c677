"""Single values: what each kind of field may contain, in any command.

Raises `InvalidRequest` naming the field, with a stable code and the limit. Never echoes a value that may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from ..errors import InvalidRequest
from .bounds import Limits
from .codec import canonical_json
from .model import DAY, MAX_QUANTITY, MAX_SLOT, SECOND, Slot
from .trees import MAX_LEVELS, SEPARATOR

MAX_ID: Final = 512
MAX_OP: Final = 255
MAX_TENANT: Final = 64
MAX_TOKEN: Final = 512
MAX_TEXT: Final = 1_024
MAX_BODY: Final = 256 * 1024
MAX_ENTITY: Final = 256
MAX_LABEL: Final = 1_200
MAX_METADATA: Final = 16 * 1024
MAX_DEPTH: Final = 32

_unprintable: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_surrogate: Final = re.compile("[\ud800-\udfff]")
_HEX: Final = "0123456789abcdef"


def invalid(field: str, code: str, message: str) -> InvalidRequest:
    """Return the error for a wrong field."""
    return InvalidRequest(message, field=field, code=code)


def text(value: object, field: str, limit: int) -> str:
    """Check a text of 1 to `limit` characters, not blank, without control characters or lone surrogates."""
    if type(value) is str and 0 < len(value) <= limit and value.isprintable() and not value.isspace():
        return value  # the usual case, fast: printable text has no control character and no surrogate
    # Text of any other kind would fail later, where it is encoded.
    if not isinstance(value, str) or not (type(value) is str or isinstance(value, Enum)):
        raise invalid(field, f"{field}_not_text", f"must be text, not {type(value).__name__}")
    if not value or value.isspace():
        raise invalid(field, f"{field}_required", "must not be empty or blank")
    if len(value) > limit:
        raise invalid(field, f"{field}_too_long", f"has {len(value)} characters, at most {limit} are allowed")
    if _unprintable.search(value):
        raise invalid(field, f"{field}_unprintable", "must not contain control characters or lone surrogates")
    return value


def whole(value: object, field: str, low: int, high: int) -> int:
    """Check an integer between two bounds; a boolean is not a number."""
    if type(value) is not int:
        raise invalid(field, f"{field}_not_whole", f"must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise invalid(field, f"{field}_out_of_range", f"must lie between {low} and {high}")
    return value


def answered_total(total: object, in_use: object, *, faces: bool) -> None:
    """Check the capacity that the application answered; only a face may pass it."""
    if not faces:
        raise invalid("total", "total_reserved", "is for resources: subclass holdkit.Resource, or use resize_pool")
    whole(total, "total", 0, MAX_QUANTITY)
    if in_use is not None:
        whole(in_use, "in_use", 0, MAX_QUANTITY)


def flag(value: object, field: str) -> None:
    """Check that a value is True or False, and not merely truthy."""
    if type(value) is not bool:
        raise invalid(field, f"{field}_not_boolean", "must be True or False")


def forced(force: object, reason: object, what: str) -> None:
    """Require a reason from a control-plane call without the token."""
    flag(force, "force")
    if force and reason is None:
        raise invalid("reason", "reason_required", f"a forced {what} must say why")


def amounts(quantity: object, *, some: bool = True) -> None:
    """Check how much of a hold is meant: a number, amounts by pool, or nothing for all of it."""
    if quantity is None:
        return
    if isinstance(quantity, Mapping):
        for pool, amount in quantity.items():
            text(pool, "quantity", MAX_ID)
            whole(amount, "quantity", 0, MAX_QUANTITY)
        if some and not any(quantity.values()):
            raise invalid("quantity", "quantity_required", "must name an amount above 0 for at least one pool")
    else:
        whole(quantity, "quantity", 1, MAX_QUANTITY)


def for_faces(value: object, field: str, faces: bool, why: str = "is for faces, which vouch for the caller") -> None:
    """Check a flag that only a face may set."""
    flag(value, field)
    if value and not faces:
        raise invalid(field, f"{field}_reserved", why)


def pool_id(value: object, field: str, *, faces: bool) -> str:
    """Check a pool's id; those that begin with ~ belong to the faces."""
    name = text(value, field, MAX_ID)
    if name[0] == "~":
        if not faces:
            raise invalid(field, f"{field}_reserved", "ids that begin with ~ are reserved")
    elif SEPARATOR in name:
        _path(name, field)
    return name


@lru_cache(maxsize=4_096)
def plain_id(name: str) -> bool:
    """Return whether a text is the valid id of a pool in no tree and not a face's. Cached, because calls repeat ids."""
    return (
        0 < len(name) <= MAX_ID
        and name.isprintable()
        and not name.isspace()
        and name[0] != "~"
        and SEPARATOR not in name
    )


def _path(name: str, field: str) -> None:
    """Check the id of a pool below others."""
    parts = name.split(SEPARATOR)
    if any(not part or part.isspace() or part[0] == "/" or part[-1] == "/" for part in parts):
        raise invalid(
            field, f"{field}_malformed", "has // for a pool below another: there must be a name on both sides"
        )
    if len(parts) > MAX_LEVELS:
        raise invalid(field, f"{field}_too_deep", f"is {len(parts)} levels deep, at most {MAX_LEVELS} are allowed")


def pool_label(value: object, *, faces: bool) -> str:
    """Check a face's own name for a pool."""
    if not faces:
        raise invalid("label", "label_reserved", "only the pools behind faces have labels")
    return text(value, "label", MAX_LABEL)


def window(opens: object, closes: object, *, faces: bool) -> None:
    """Check when the pool of a leg may be used: from one slot up to another."""
    if not faces:
        raise invalid("closes", "closes_reserved", "only the pools behind faces have windows")
    if opens is None or closes is None:
        raise invalid("closes", "window_incomplete", "a window has both opens and closes")
    whole(closes, "closes", whole(opens, "opens", 0, MAX_SLOT) + 1, MAX_SLOT)


def hold_id(value: object, field: str = "id") -> str:
    """Check a hold's id: 32 lower-case hex digits, as the kernel writes them."""
    if type(value) is not str or len(value) != 32 or value.strip(_HEX):  # quicker than a regular expression
        raise invalid(field, f"{field}_malformed", "must be a 128-bit id: a UUID, or its 32 hex digits")
    return value


def metadata(value: object) -> None:
    """Check a JSON object, at most 16 KiB and 32 levels deep, finite numbers only, no NUL, no lone surrogate."""
    if not isinstance(value, dict):
        raise invalid("metadata", "metadata_not_object", f"must be a JSON object, not {type(value).__name__}")
    _check_json(value, 1)
    try:
        encoded = canonical_json(value).encode()
    except TypeError as error:  # a subclass of str, int or float
        raise invalid("metadata", "metadata_not_json", f"cannot be written as JSON: {error}") from None
    if len(encoded) > MAX_METADATA:
        raise invalid("metadata", "metadata_too_large", f"is larger than {MAX_METADATA} bytes as JSON")


def _check_json(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise invalid("metadata", "metadata_too_deep", f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise invalid("metadata", "metadata_key_not_text", "must have text keys only")
            _check_scalar(key)
            _check_json(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json(item, depth + 1)
    else:
        _check_scalar(value)


def _check_scalar(value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value or _surrogate.search(value):
            raise invalid("metadata", "metadata_unprintable", "must not contain NUL or lone surrogates")
    elif isinstance(value, float):
        if value - value != 0:  # NaN and both infinities
            raise invalid("metadata", "metadata_not_finite", "must not contain NaN or infinity")
    elif isinstance(value, int):  # booleans too
        if abs(value) > 2**63 - 1:
            raise invalid("metadata", "metadata_number_too_large", "holds a whole number beyond 64 bits")
    elif value is not None:
        raise invalid("metadata", "metadata_not_json", f"holds a {type(value).__name__}, which JSON cannot carry")


def spelled(slots: Slot) -> str:
    """Spell an interval as text that is accepted as a ttl."""
    for letter, unit in (("d", DAY), ("s", SECOND)):
        if slots % unit == 0:
            return f"{slots // unit}{letter}" if slots else "0s"
    return f"{slots / 1_000:.12g}ms"


def span(slots: object, field: str, limits: Limits) -> None:
    """Check an interval within the limits."""
    if type(slots) is not int:
        raise invalid(field, f"{field}_malformed", "must be seconds, a timedelta, or text such as '90s', '5m', '2h'")
    if slots < limits.min_ttl:
        least = "more than 0" if limits.min_ttl <= 1 else f"at least {spelled(limits.min_ttl)} (min_ttl)"
        raise invalid(field, f"{field}_too_short", f"must be {least}")
    if slots > limits.max_ttl:
        raise invalid(field, f"{field}_too_long", f"must be at most {spelled(limits.max_ttl)} (max_ttl)")


def json_text(value: object, field: str) -> None:
    """Check the body of a record."""
    if not isinstance(value, str) or len(value.encode(errors="replace")) > MAX_BODY:
        raise invalid(field, f"{field}_too_large", f"must be JSON text of at most {MAX_BODY} bytes")
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise invalid(field, f"{field}_not_json", "must be JSON text") from None
