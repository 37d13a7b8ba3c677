"""The parser: text in, checked statements out. Every error names file and line; nothing is guessed and nothing is
run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from ... import Limits, State
from ...core.bounds import MEANING
from ...core.limits import SPANS
from . import expectations, values
from .expectations import Converters, Expected, Kind

CALL: Final[Converters] = dict.fromkeys(("op", "actor", "correlation_id", "reason"), values.text)
GRANT: Final[Converters] = {
    **CALL,
    **dict.fromkeys(("token", "entity", "account"), values.text),
    "id": values.identity,
    "metadata": values.document,
}
ENDING: Final[Converters] = {**CALL, "token": values.text, "via": values.one_of(("ticket",))}
LIMITS: Final[Converters] = {
    name: values.interval if name in SPANS else values.whole for name in Limits.__struct_fields__
}  # fmt: skip


class StorySyntax(ValueError):
    """A story that cannot be read."""


class Statement(Struct, frozen=True):
    """One line of a story: its verb, its arguments, and the expected answer."""

    where: str
    text: str
    verb: str
    arguments: dict[str, Any]
    expected: Expected | None = None
    listed: list[str] | None = None
    """The names or actions that are expected, in order."""
    inside: tuple[Statement, ...] = ()
    """The commands of a batch."""


class Story(Struct, frozen=True):
    """One promise: its name, its limits, and its statements."""

    name: str
    file: str
    limits: Limits | None
    statements: tuple[Statement, ...]

    @property
    def checked(self) -> int:
        """Return how many statements have an expectation."""
        every = chain.from_iterable((statement, *statement.inside) for statement in self.statements)
        return sum(statement.expected is not None or statement.listed is not None for statement in every)


class Verb(Struct, frozen=True):
    """How the statements of a verb are read."""

    shape: Callable[[list[str]], dict[str, Any]]
    options: Converters = {}
    kind: Kind | None = None
    """The kind of its answer; None: it has no answer, or a list."""
    lists: bool = False
    expectation_optional: bool = False
    command: bool = False


def one(field: str) -> Callable[[list[str]], dict[str, Any]]:
    """Read exactly one word."""

    def shape(arguments: list[str]) -> dict[str, Any]:
        if len(arguments) != 1:
            raise ValueError(f"takes exactly one word, its {field}")
        return {field: values.plain(arguments[0])}

    return shape


FLAGS: Final = ("keep_rest", "force", "trusted")


def none(arguments: list[str]) -> dict[str, Any]:
    """Read no words."""
    if arguments:
        raise ValueError(f"{arguments[0]!r} is not known here")
    return {}


def named(rest: Callable[[list[str]], Any], field: str) -> Callable[[list[str]], dict[str, Any]]:
    """Read a hold's name, and then what `rest` reads."""

    def shape(arguments: list[str]) -> dict[str, Any]:
        flags = {word: True for word in arguments[1:] if word in FLAGS}
        if not arguments:
            raise ValueError("names no hold")
        return {"name": arguments[0], field: rest([word for word in arguments[1:] if word not in flags]), **flags}

    return shape


def name_and_flags(arguments: list[str]) -> dict[str, Any]:
    """Read a hold's name, and flags only."""
    shaped = named(none, "more")(arguments)
    del shaped["more"]
    return shaped


def two(first: str, second: str) -> Callable[[list[str]], dict[str, Any]]:
    """Read exactly two words."""

    def shape(arguments: list[str]) -> dict[str, Any]:
        if len(arguments) != 2:
            raise ValueError(f"takes exactly two words, {first} and {second}")
        return {first: values.plain(arguments[0]), second: values.plain(arguments[1])}

    return shape


def several(*fields: str) -> Callable[[list[str]], dict[str, Any]]:
    """Read exactly these words."""

    def shape(arguments: list[str]) -> dict[str, Any]:
        if len(arguments) != len(fields):
            raise ValueError(f"takes exactly {len(fields)} words: {', '.join(fields)}")
        return {field: values.text(word) for field, word in zip(fields, arguments, strict=True)}

    return shape


def listing(*fields: str) -> Callable[[list[str]], dict[str, Any]]:
    """Read these words, and then a list of items."""

    def shape(arguments: list[str]) -> dict[str, Any]:
        if len(arguments) < len(fields):
            raise ValueError(f"begins with {', '.join(fields)}")
        first = {field: values.plain(word) for field, word in zip(fields, arguments, strict=False)}
        return {**first, "ids": [values.text(word) for word in arguments[len(fields) :]]}

    return shape


def moment(arguments: list[str]) -> dict[str, Any]:
    """Read `60`, `+5` or `-5`."""
    if len(arguments) != 1:
        raise ValueError("takes a time: 60, +5 or -5")
    return {"slot": values.slot(arguments[0]), "relative": arguments[0][0] in "+-"}


def key_or_id(arguments: list[str]) -> dict[str, Any]:
    """Read a type and a value; or nothing, where `id=` names the claim."""
    return {} if not arguments else several("type", "value")(arguments)


def batch(arguments: list[str]) -> dict[str, Any]:
    """Read nothing, or `atomic`."""
    if arguments not in ([], ["atomic"]):
        raise ValueError(f"{' '.join(arguments)!r} is not known here")
    return {"atomic": bool(arguments)}


FAMILIES: Final = ("expect", "claim", "items", "seats")
"""The first words that are no verbs by themselves."""

VERBS: Final[dict[str, Verb]] = {
    "limits": Verb(none, LIMITS),
    "change": Verb(none, {**CALL, **dict.fromkeys(MEANING, values.scalar), "if_version": values.scalar}, expectations.LIMITS, expectation_optional=True),
    "clock": Verb(moment),
    "tenant": Verb(lambda arguments: {"tenant": None} if arguments == ["none"] else one("tenant")(arguments)),
    "context": Verb(none, {name: CALL[name] for name in ("actor", "correlation_id", "reason")}),
    "restart": Verb(none),
    "pool": Verb(one("id"), {**CALL, **dict.fromkeys(("total", "per_account", "line"), values.scalar)}, expectations.POOLS,
                 expectation_optional=True, command=True),
    "limit": Verb(one("id"), {**CALL, "per_account": values.scalar, "if_version": values.scalar}, expectations.POOLS,
                  expectation_optional=True, command=True),
    "resize": Verb(one("id"), {**CALL, "total": values.scalar, "if_version": values.scalar}, expectations.POOLS, expectation_optional=True, command=True),
    **dict.fromkeys(("remove", "archive", "unarchive"), Verb(one("id"), CALL, expectations.POOLS, expectation_optional=True, command=True)),
    "hold": Verb(named(values.what, "what"), {**GRANT, "ttl": values.scalar, "deadline": values.slot}, expectations.HOLDS, command=True),
    "join": Verb(named(values.what, "what"), {**GRANT, "ttl": values.scalar, "offer_ttl": values.scalar}, expectations.HOLDS, command=True),
    "consume": Verb(named(values.what, "what"), GRANT, expectations.HOLDS, command=True),
    "confirm": Verb(named(values.amounts, "quantity"), {**ENDING, "entity": values.text, "overage": values.text}, expectations.HOLDS, command=True),
    "release": Verb(named(values.amounts, "quantity"), ENDING, expectations.HOLDS, command=True),
    "extend": Verb(name_and_flags, {**ENDING, "by": values.scalar, "ttl": values.scalar, "until": values.slot, "forever": values.scalar}, expectations.HOLDS, command=True),
    "reassign": Verb(name_and_flags, {**ENDING, "account": values.scalar}, expectations.HOLDS, command=True),
    "expire": Verb(one("name"), CALL, expectations.HOLDS, command=True),
    "return": Verb(named(values.amounts, "quantity"), {**ENDING, "account": values.text}, expectations.RETURNS, command=True),
    "record": Verb(two("kind", "id"), {**CALL, "body": values.text, "if_version": values.scalar}, expectations.RECORDS, command=True),
    "sweep": Verb(none, {"limit": values.scalar}, expectations.SWEEPS, command=True),
    "rate": Verb(values.rate),
    "rate consume": Verb(values.use, {**CALL, "entity": values.text}, expectations.HOLDS),
    "budget": Verb(values.budget),
    "budget hold": Verb(values.estimate, {**CALL, "token": values.text, "ttl": values.scalar}, expectations.HOLDS),
    "budget confirm": Verb(values.spent, {**ENDING, "overage": values.text}, expectations.HOLDS),
    "calendar": Verb(values.calendar, {"zone": values.plain}),
    "calendar hold": Verb(values.stay, {**CALL, "token": values.text, "ttl": values.scalar}, expectations.HOLDS),
    "capacity": Verb(one("key"), {"total": values.whole, "closes": values.slot}),
    "resource hold": Verb(two("name", "key"), {**GRANT, "ttl": values.scalar, "deadline": values.slot, "quantity": values.scalar}, expectations.HOLDS),
    "batch": Verb(batch, {"op": CALL["op"]}),
    "end": Verb(none, {}, expectations.BATCHES, expectation_optional=True),
    "expect pool": Verb(one("id"), {}, expectations.SEEN_POOL),
    "expect hold": Verb(one("name"), {"via": ENDING["via"]}, expectations.HOLDS),
    "expect record": Verb(two("kind", "id"), {}, expectations.SEEN_RECORD),
    "expect pools": Verb(none, {"prefix": values.text, "archived": values.scalar, "after": values.text, "limit": values.whole}, lists=True),
    "expect holds": Verb(none, {"pool": values.text, "state": values.one_of(State), "entity": values.text, "after": values.text,
                                "limit": values.whole}, lists=True),
    "expect records": Verb(one("kind"), {"after": values.text, "limit": values.whole}, lists=True),
    "place": Verb(one("name"), {"via": ENDING["via"]}, lists=True),
    "usage": Verb(one("account"), {"after": values.text, "limit": values.whole}, lists=True),
    "claim hold": Verb(several("name", "type", "value"), {**CALL, "ttl": values.scalar, "token": values.text,
                       "metadata": values.document}, expectations.HOLDS, command=True),
    "claim free": Verb(several("type", "value"), CALL, expectations.CLAIMS, command=True),
    "claim get": Verb(key_or_id, {"id": values.text}, expectations.CLAIMS),
    "claim list": Verb(none, {"entity": values.text, "after": values.text, "limit": values.whole}, lists=True),
    "claim taken": Verb(several("type", "value"), {}, lists=True),
    "items add": Verb(listing(), {}, expectations.RECORDS, expectation_optional=True, command=True),
    "items free": Verb(listing(), CALL, expectations.RECORDS, command=True),
    "items hold": Verb(listing("name"), {**CALL, "ttl": values.scalar, "token": values.text}, expectations.HOLDS, command=True),
    "items confirm": Verb(listing(), {**CALL, "token": values.text, "entity": values.text}, expectations.HOLDS, command=True),
    "items release": Verb(listing(), {**CALL, "token": values.text}, expectations.HOLDS, command=True),
    "items get": Verb(listing(), {"token": values.text}, lists=True),
    "seats add": Verb(listing("section", "row"), {"kind": values.text}, expectations.RECORDS, expectation_optional=True, command=True),
    "seats hold": Verb(several("name", "count", "section"), {**CALL, "ttl": values.scalar, "token": values.text, "kind": values.text,
                       "together": values.text}, expectations.HOLDS, command=True),
    "combine": Verb(listing("name"), {**CALL, "ttl": values.scalar, "deadline": values.slot, "token": values.text}, expectations.HOLDS, command=True),
    "history": Verb(one("subject"), {}, lists=True),
    "entry": Verb(two("subject", "index"), {}, expectations.ENTRIES),
    "journal": Verb(none, {"after": values.text, "limit": values.whole}, lists=True),
    "cursor": Verb(one("cursor")),
    "follow": Verb(one("follower"), {}, lists=True),
    "verify": Verb(none, {}, expectations.OK),
}  # fmt: skip


def read_story(text: str, file: str = "story") -> Story:
    """Read one story. Raise `StorySyntax`, which names file and line, if that fails."""
    numbered = ((f"{file}:{number}", statement) for number, statement in enumerate(text.splitlines(), start=1))
    statements = [statement for where, raw in numbered if (statement := _statement(where, raw)) is not None]
    limits: Limits | None = None
    if statements and statements[0].verb == "limits":
        limits = Limits(**statements.pop(0).arguments)
    for statement in statements:
        if statement.verb == "limits":
            raise StorySyntax(f"{statement.where}: limits stand on the first line")
    story = Story(Path(file).stem, file, limits, tuple(_with_batches(iter(statements))))
    if not story.checked:
        raise StorySyntax(f"{file}: expects nothing")
    return story


def read_stories(folder: Path) -> list[Story]:
    """Return every `.story` file of a folder, in order of name."""
    return [read_story(path.read_text("utf-8"), str(path)) for path in sorted(folder.glob("*.story"))]


def _statement(where: str, raw: str) -> Statement | None:
    try:
        found = values.tokens(raw)
        return _read(where, raw.strip(), found) if found else None
    except ValueError as wrong:
        raise StorySyntax(f"{where}: {wrong}\n    {raw.strip()}") from None


def _read(where: str, raw: str, found: list[str]) -> Statement:
    arrow = found.index("->") if "->" in found else len(found)
    arguments, after_arrow = found[:arrow], found[arrow + 1 :]
    two_words = " ".join(arguments[:2])
    name = two_words if arguments[0] in FAMILIES or two_words in VERBS else arguments[0]
    verb = VERBS.get(name)
    if verb is None:
        raise ValueError(f"the verb {name!r} is not known")
    rest = arguments[1 + name.count(" ") :]
    options: dict[str, Any] = {}
    for token in (token for token in rest if expectations.is_option(token)):
        option, _, value = token.partition("=")
        if option not in verb.options or option in options:
            raise ValueError(f"{name} takes no {option!r}, or not twice")
        options[option] = verb.options[option](value)
    shaped = verb.shape([token for token in rest if not expectations.is_option(token)])
    statement = Statement(where, raw, name, {**shaped, **options})
    if arrow == len(found):
        return statement  # whether it may be silent is known once its batch is
    if not after_arrow:
        raise ValueError("expects nothing behind ->")
    if verb.lists:
        return structs.replace(statement, listed=_listed(name, shaped, after_arrow))
    if verb.kind is None:
        raise ValueError(f"{name} has no answer to expect")
    return structs.replace(statement, expected=expectations.expected(verb.kind, after_arrow))


def _listed(verb: str, shaped: dict[str, Any], after_arrow: list[str]) -> list[str]:
    if verb in ("journal", "follow"):
        return values.actions(after_arrow)
    if verb == "history":
        return values.actions(after_arrow, family_of(shaped["subject"]))
    return [] if after_arrow == ["nothing"] else after_arrow


def family_of(subject: str) -> str:
    """Return the family that a subject names: `pool/gpu` is a pool, `record/kind/id` a record, anything else a hold."""
    family = subject.partition("/")[0]
    return family if family in ("pool", "record") and "/" in subject else "hold"


def _with_batches(statements: Iterator[Statement]) -> Iterator[Statement]:
    """Put the statements between `batch` and `end` into their batch, and check that every statement that needs an
    expectation has one."""
    for statement in statements:
        if statement.verb == "end":
            raise StorySyntax(f"{statement.where}: ends no batch")
        if statement.verb != "batch":
            yield _with_expectation(statement)
            continue
        inside: list[Statement] = []
        for inner in statements:
            if inner.verb == "end":
                refused = inner.expected is not None
                commands = tuple(inside if refused else map(_with_expectation, inside))
                if refused and any(command.expected is not None for command in inside):
                    raise StorySyntax(f"{inner.where}: a batch refused whole has no answers inside")
                yield structs.replace(statement, inside=commands, expected=inner.expected)
                break
            if not VERBS[inner.verb].command or inner.verb.startswith(FAMILIES):
                raise StorySyntax(f"{inner.where}: {inner.verb} is not a command, and cannot be in a batch")
            inside.append(inner)
        else:
            raise StorySyntax(f"{statement.where}: the batch has no end")


def _with_expectation(statement: Statement) -> Statement:
    verb = VERBS[statement.verb]
    if statement.expected is None and statement.listed is None and (verb.kind or verb.lists):
        if not verb.expectation_optional:
            raise StorySyntax(
                f"{statement.where}: {statement.verb} must say what it expects: -> …\n    {statement.text}"
            )
        return structs.replace(statement, expected=Expected("done", False, {}))
    return statement
