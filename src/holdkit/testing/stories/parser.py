"""The language: text in, checked lines out. Every error names file and line; nothing is guessed and nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from ... import Limits, State
from ...core.limits import SPANS
from ...core.model import MEANING
from . import expectations, values
from .expectations import Converters, Kind, Want

CALL: Final[Converters] = dict.fromkeys(("op", "actor", "correlation_id", "reason"), values.text)
BIRTH: Final[Converters] = {
    **CALL,
    **dict.fromkeys(("owner", "entity"), values.text),
    "id": values.identity,
    "metadata": values.document,
}
ENDING: Final[Converters] = {**CALL, "owner": values.text, "via": values.one_of(("ticket",))}
LIMITS: Final[Converters] = {
    name: values.interval if name in SPANS else values.whole for name in Limits.__struct_fields__
}  # fmt: skip


class StorySyntax(ValueError):
    """A story that cannot be read."""


class Line(Struct, frozen=True):
    """One line: its verb, what it says, and what must be the answer."""

    where: str
    text: str
    verb: str
    said: dict[str, Any]
    want: Want | None = None
    listed: list[str] | None = None
    """The names or actions that must be the answer, in order."""
    inside: tuple[Line, ...] = ()
    """The commands of a batch."""


class Story(Struct, frozen=True):
    """A promise: its name, the limits it is told under, and its lines."""

    name: str
    file: str
    limits: Limits | None
    lines: tuple[Line, ...]

    @property
    def checked(self) -> int:
        """How many lines have an expectation."""
        every = chain.from_iterable((line, *line.inside) for line in self.lines)
        return sum(line.want is not None or line.listed is not None for line in every)


class Verb(Struct, frozen=True):
    """How a verb's line is read."""

    shape: Callable[[list[str]], dict[str, Any]]
    options: Converters = {}
    kind: Kind | None = None
    """What its answer is; None: it has none, or a list."""
    lists: bool = False
    may_be_silent: bool = False
    command: bool = False


def one(field: str) -> Callable[[list[str]], dict[str, Any]]:
    """A line of exactly one word."""

    def shape(said: list[str]) -> dict[str, Any]:
        if len(said) != 1:
            raise ValueError(f"takes exactly one word, its {field}")
        return {field: values.plain(said[0])}

    return shape


def none(said: list[str]) -> dict[str, Any]:
    """A line without words."""
    if said:
        raise ValueError(f"{said[0]!r} is not known here")
    return {}


def named(rest: Callable[[list[str]], Any], field: str) -> Callable[[list[str]], dict[str, Any]]:
    """A hold's name, and then what `rest` reads."""

    def shape(said: list[str]) -> dict[str, Any]:
        flags = {word: True for word in said[1:] if word in ("keep_rest", "force", "trusted")}
        if not said:
            raise ValueError("names no hold")
        return {"name": said[0], field: rest([word for word in said[1:] if word not in flags]), **flags}

    return shape


def nothing_more(said: list[str]) -> None:
    """Behind a name: only flags."""
    none(said)


def two(first: str, second: str) -> Callable[[list[str]], dict[str, Any]]:
    """A line of exactly two words."""

    def shape(said: list[str]) -> dict[str, Any]:
        if len(said) != 2:
            raise ValueError(f"takes exactly two words, {first} and {second}")
        return {first: values.plain(said[0]), second: values.plain(said[1])}

    return shape


def several(*fields: str) -> Callable[[list[str]], dict[str, Any]]:
    """A line of exactly these words."""

    def shape(said: list[str]) -> dict[str, Any]:
        if len(said) != len(fields):
            raise ValueError(f"takes exactly {len(fields)} words: {', '.join(fields)}")
        return {field: values.text(word) for field, word in zip(fields, said, strict=True)}

    return shape


def listing(*fields: str) -> Callable[[list[str]], dict[str, Any]]:
    """These words, and then a list of items."""

    def shape(said: list[str]) -> dict[str, Any]:
        if len(said) < len(fields):
            raise ValueError(f"begins with {', '.join(fields)}")
        first = {field: values.plain(word) for field, word in zip(fields, said, strict=False)}
        return {**first, "ids": [values.text(word) for word in said[len(fields) :]]}

    return shape


def moment(said: list[str]) -> dict[str, Any]:
    """`60`, `+5` or `-5`."""
    if len(said) != 1:
        raise ValueError("takes a time: 60, +5 or -5")
    return {"slot": values.slot(said[0]), "relative": said[0][0] in "+-"}


def batch(said: list[str]) -> dict[str, Any]:
    """Nothing, or `atomic`."""
    if said not in ([], ["atomic"]):
        raise ValueError(f"{' '.join(said)!r} is not known here")
    return {"atomic": bool(said)}


FAMILIES: Final = ("expect", "claim", "items")
"""Verbs of two words begin with these."""

VIA: Final[Converters] = {**CALL, "owner": values.text, "via": values.one_of(("ticket", "id"))}

VERBS: Final[dict[str, Verb]] = {
    "limits": Verb(none, LIMITS),
    "change": Verb(none, {**CALL, **dict.fromkeys(MEANING, values.scalar), "if_version": values.scalar}, expectations.LIMITS, may_be_silent=True),
    "clock": Verb(moment),
    "tenant": Verb(lambda said: {"tenant": None} if said == ["none"] else one("tenant")(said)),
    "context": Verb(none, {name: CALL[name] for name in ("actor", "correlation_id", "reason")}),
    "restart": Verb(none),
    "pool": Verb(one("id"), {**CALL, "total": values.scalar}, expectations.POOLS, may_be_silent=True, command=True),
    "resize": Verb(one("id"), {**CALL, "total": values.scalar, "if_version": values.scalar}, expectations.POOLS, may_be_silent=True, command=True),
    **dict.fromkeys(("remove", "archive", "unarchive"), Verb(one("id"), CALL, expectations.POOLS, may_be_silent=True, command=True)),
    "hold": Verb(named(values.what, "what"), {**BIRTH, "ttl": values.scalar, "deadline": values.slot}, expectations.HOLDS, command=True),
    "consume": Verb(named(values.what, "what"), BIRTH, expectations.HOLDS, command=True),
    "confirm": Verb(named(values.amounts, "quantity"), {**ENDING, "entity": values.text, "overage": values.text}, expectations.HOLDS, command=True),
    "release": Verb(named(values.amounts, "quantity"), ENDING, expectations.HOLDS, command=True),
    "extend": Verb(one("name"), {**ENDING, "by": values.scalar, "ttl": values.scalar, "until": values.slot, "forever": values.scalar}, expectations.HOLDS, command=True),
    "expire": Verb(one("name"), CALL, expectations.HOLDS, command=True),
    "return": Verb(named(values.amounts, "quantity"), ENDING, expectations.RETURNS, command=True),
    "record": Verb(two("kind", "id"), {**CALL, "body": values.text, "if_version": values.scalar}, expectations.RECORDS, command=True),
    "sweep": Verb(none, {"limit": values.scalar}, expectations.SWEEPS, command=True),
    "rate": Verb(values.rate),
    "take": Verb(values.take, {**CALL, "entity": values.text}, expectations.HOLDS),
    "budget": Verb(values.budget),
    "estimate": Verb(values.estimate, {**CALL, "owner": values.text, "ttl": values.scalar}, expectations.HOLDS),
    "spent": Verb(values.spent, {**ENDING, "overage": values.text}, expectations.HOLDS),
    "calendar": Verb(values.calendar, {"zone": values.plain}),
    "stay": Verb(values.stay, {**CALL, "owner": values.text, "ttl": values.scalar}, expectations.HOLDS),
    "capacity": Verb(one("key"), {"total": values.whole, "closes": values.slot}),
    "reserve": Verb(two("name", "key"), {**BIRTH, "ttl": values.scalar, "deadline": values.slot, "quantity": values.scalar}, expectations.HOLDS),
    "batch": Verb(batch, {"op": CALL["op"]}),
    "end": Verb(none, {}, expectations.BATCHES, may_be_silent=True),
    "expect pool": Verb(one("id"), {}, expectations.SEEN_POOL),
    "expect hold": Verb(one("name"), {"via": ENDING["via"]}, expectations.HOLDS),
    "expect record": Verb(two("kind", "id"), {}, expectations.SEEN_RECORD),
    "expect pools": Verb(none, {"prefix": values.text, "archived": values.scalar, "after": values.text, "limit": values.whole}, lists=True),
    "expect holds": Verb(none, {"pool": values.text, "state": values.one_of(State), "entity": values.text, "after": values.text,
                                "limit": values.whole}, lists=True),
    "expect records": Verb(one("kind"), {"after": values.text, "limit": values.whole}, lists=True),
    "claim reserve": Verb(several("name", "type", "value"), {**CALL, "ttl": values.scalar, "owner": values.text,
                          "metadata": values.document}, expectations.CLAIMS, command=True),
    "claim confirm": Verb(one("name"), {**VIA, "entity": values.text}, expectations.CLAIMS, command=True),
    "claim release": Verb(one("name"), VIA, expectations.CLAIMS, command=True),
    "claim extend": Verb(one("name"), {**VIA, "by": values.scalar, "ttl": values.scalar}, expectations.CLAIMS, command=True),
    "claim forget": Verb(named(nothing_more, "rest"), VIA, expectations.CLAIMS, command=True),
    "claim find": Verb(none, {**dict.fromkeys(("id", "key", "type", "value", "entity"), values.text),
                              "active_only": values.scalar}, expectations.CLAIMS),
    "claim taken": Verb(several("type", "value"), {}, lists=True),
    "items add": Verb(listing(), {}, expectations.RECORDS, may_be_silent=True, command=True),
    "items reopen": Verb(listing(), CALL, expectations.RECORDS, command=True),
    "items reserve": Verb(listing("name"), {**CALL, "ttl": values.scalar, "owner": values.text}, expectations.HOLDS, command=True),
    "items release": Verb(one("name"), ENDING, expectations.HOLDS, command=True),
    "items finalize": Verb(one("name"), {**ENDING, "entity": values.text}, expectations.HOLDS, command=True),
    "items states": Verb(listing(), {}, lists=True),
    "combine": Verb(listing("name"), {**CALL, "ttl": values.scalar, "owner": values.text}, expectations.HOLDS, command=True),
    "history": Verb(one("subject"), {}, lists=True),
    "entry": Verb(two("subject", "index"), {}, expectations.ENTRIES),
    "journal": Verb(none, {"after": values.text, "limit": values.whole}, lists=True),
    "cursor": Verb(one("cursor")),
    "follow": Verb(one("follower"), {}, lists=True),
    "verify": Verb(none, {}, expectations.OK),
}  # fmt: skip


def read_story(text: str, file: str = "story") -> Story:
    """Read one story; raises `StorySyntax` naming file and line."""
    numbered = ((f"{file}:{number}", line) for number, line in enumerate(text.splitlines(), start=1))
    lines = [line for where, raw in numbered if (line := _line(where, raw)) is not None]
    limits: Limits | None = None
    if lines and lines[0].verb == "limits":
        limits = Limits(**lines.pop(0).said)
    for line in lines:
        if line.verb == "limits":
            raise StorySyntax(f"{line.where}: limits stand on the first line")
    story = Story(Path(file).stem, file, limits, tuple(_with_batches(iter(lines))))
    if not story.checked:
        raise StorySyntax(f"{file}: expects nothing")
    return story


def read_stories(folder: Path) -> list[Story]:
    """Every `.story` file of a folder, in order of name."""
    return [read_story(path.read_text("utf-8"), str(path)) for path in sorted(folder.glob("*.story"))]


def _line(where: str, raw: str) -> Line | None:
    try:
        found = values.tokens(raw)
        return _read(where, raw.strip(), found) if found else None
    except ValueError as wrong:
        raise StorySyntax(f"{where}: {wrong}\n    {raw.strip()}") from None


def _read(where: str, raw: str, found: list[str]) -> Line:
    arrow = found.index("->") if "->" in found else len(found)
    said, behind = found[:arrow], found[arrow + 1 :]
    name = " ".join(said[:2]) if said[0] in FAMILIES else said[0]
    verb = VERBS.get(name)
    if verb is None:
        raise ValueError(f"the verb {name!r} is not known")
    rest = said[1 + name.count(" ") :]
    options: dict[str, Any] = {}
    for token in (token for token in rest if expectations.is_option(token)):
        option, _, value = token.partition("=")
        if option not in verb.options or option in options:
            raise ValueError(f"{name} takes no {option!r}, or not twice")
        options[option] = verb.options[option](value)
    shaped = verb.shape([token for token in rest if not expectations.is_option(token)])
    line = Line(where, raw, name, {**shaped, **options})
    if arrow == len(found):
        return line  # whether it may be silent is known once its batch is
    if not behind:
        raise ValueError("expects nothing behind ->")
    if verb.lists:
        return structs.replace(line, listed=_listed(name, shaped, behind))
    if verb.kind is None:
        raise ValueError(f"{name} has no answer to expect")
    return structs.replace(line, want=expectations.want(verb.kind, behind))


def _listed(verb: str, shaped: dict[str, Any], behind: list[str]) -> list[str]:
    if verb in ("journal", "follow"):
        return values.actions(behind)
    if verb == "history":
        return values.actions(behind, family_of(shaped["subject"]))
    return [] if behind == ["nothing"] else behind


def family_of(subject: str) -> str:
    """`pool/gpu` is a pool, `record/kind/id` a record, anything else a hold."""
    family = subject.partition("/")[0]
    return family if family in ("pool", "record") and "/" in subject else "hold"


def _with_batches(lines: Iterator[Line]) -> Iterator[Line]:
    """Put the lines between `batch` and `end` into their batch, and see that nothing is silent that must speak."""
    for line in lines:
        if line.verb == "end":
            raise StorySyntax(f"{line.where}: ends no batch")
        if line.verb != "batch":
            yield _spoken(line)
            continue
        inside: list[Line] = []
        for inner in lines:
            if inner.verb == "end":
                refused = inner.want is not None
                commands = tuple(inside if refused else map(_spoken, inside))
                if refused and any(command.want is not None for command in inside):
                    raise StorySyntax(f"{inner.where}: a batch refused whole has no answers inside")
                yield structs.replace(line, inside=commands, want=inner.want)
                break
            if not VERBS[inner.verb].command or inner.verb.startswith(FAMILIES):
                raise StorySyntax(f"{inner.where}: {inner.verb} is not a command, and cannot be in a batch")
            inside.append(inner)
        else:
            raise StorySyntax(f"{line.where}: the batch has no end")


def _spoken(line: Line) -> Line:
    verb = VERBS[line.verb]
    if line.want is None and line.listed is None and (verb.kind or verb.lists):
        if not verb.may_be_silent:
            raise StorySyntax(f"{line.where}: {line.verb} must say what it expects: -> …\n    {line.text}")
        return structs.replace(line, want=Want("done", False, {}))
    return line
