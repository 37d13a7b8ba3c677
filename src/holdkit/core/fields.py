"""The facts of a field, said once, on the field.

    entity: Changing[Personal[str | None]] = None

A marker costs nothing where values are made or read: what follows from it is computed when a module is imported.
`fields_that` gives the names of the marked fields; `compiled` makes the function that copies or compares them. A test
changes every field of a stored hold on every engine, so a field that a list has forgotten is found there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

from msgspec import UNSET, Struct

T = TypeVar("T")


class Fact(Enum):
    """A fact that may be true of a field."""

    FIXED = auto()
    """It stays for the whole life of a hold: two holds with the same id that differ in it are two lives."""
    GRANTED = auto()
    """It is set by the grant: at birth, or for a hold that has waited, by its offer."""
    CHANGING = auto()
    """It may change at any time."""
    FILED = auto()
    """A hold's outstanding legs are stored by it: if it changes, they are stored anew."""
    PERSONAL = auto()
    """Its text may name a person: it is sealed as a commitment, and replaced by an erasure."""


Fixed: TypeAlias = Annotated[T, Fact.FIXED]
Granted: TypeAlias = Annotated[T, Fact.GRANTED]
Changing: TypeAlias = Annotated[T, Fact.CHANGING]
Filed: TypeAlias = Annotated[T, Fact.FILED]
Personal: TypeAlias = Annotated[T, Fact.PERSONAL]


def fields_that(fact: Fact, kind: type[Struct]) -> tuple[str, ...]:
    """Return the names of the fields that have this fact, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(name for name in kind.__struct_fields__ if fact in getattr(hints[name], "__metadata__", ()))


def defaults_of(kind: type[Struct]) -> dict[str, object]:
    """Return the defaults of the fields that have one."""
    names = kind.__struct_fields__
    return dict(zip(names[len(names) - len(kind.__struct_defaults__) :], kind.__struct_defaults__, strict=True))


def compiled(arguments: str, expression: str, names: Mapping[str, object]) -> Any:
    """Return the function of these arguments that computes an expression, as `namedtuple` makes its constructor.

    A loop over names, and even `attrgetter`, takes two to four times as long as attributes that are written out.
    """
    return eval(f"lambda {arguments}: {expression}", dict(names))


def any_differs(fields: Iterable[str]) -> Any:
    """Return a function of two structs: whether they differ in any of these fields."""
    return compiled("one, other", " or ".join(f"one.{name} != other.{name}" for name in fields), {})


def says_more(kind: type[Struct], fields: Iterable[str]) -> Any:
    """Return a function of a struct: whether a field that is not among these has another value than its default."""
    more = {name: default for name, default in defaults_of(kind).items() if name not in {*fields}}
    says = [
        f"it.{name} is not {name}" if value in (None, UNSET) else f"it.{name} != {name}" for name, value in more.items()
    ]
    return compiled("it", " or ".join(says), more)
