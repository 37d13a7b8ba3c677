"""Commanding: lines become calls that a driver makes, and answers are judged. A generator, so that it serves sync and async.

Checks every answer where it comes; opens, closes and awaits nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from datetime import datetime
from typing import Any, Final, TypeAlias

from msgspec import Struct, field, structs

from ... import (
    ArchivePool,
    Claim,
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    Hold,
    Leg,
    PlaceHold,
    PutRecord,
    ReleaseHold,
    RemovePool,
    ResizePool,
    Resource,
    ReturnToPool,
    ReturnUnits,
    Sweep,
    UnarchivePool,
    VerifyReport,
)
from ...core.commands import AnyCommand
from ...kernel.normalise import datetime_of
from ..clock import FakeClock
from .expectations import complaints
from .parser import Line, Story
from .values import identity


class StoryFailed(AssertionError):
    """An answer was not what the story says."""


class Face(Struct, frozen=True):
    """What a method of the kernel makes, to be asked instead of the kernel."""

    method: str
    positional: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def made_by(self, kernel: Any) -> Any:
        """The face, on this kernel."""
        return getattr(kernel, self.method)(*self.positional, **self.options)


class Call(Struct, frozen=True):
    """A method of the kernel, to be called for a tenant and in a context. The answer is its result or its exception."""

    method: str
    positional: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    around: dict[str, Any] = field(default_factory=dict)
    where: str = ""
    """The line it came from, for an exception that nobody expected."""
    face: Face | None = None

    def asked(self, kernel: Any) -> Any:
        """What the method is called on."""
        bound = kernel if self.tenant is None else kernel.tenant(self.tenant)
        return bound if self.face is None else self.face.made_by(bound)


class Restart(Struct, frozen=True):
    """Close the kernel and open it again, if its engine is durable."""


Script: TypeAlias = Generator[Call | Restart, Any, int]
Step: TypeAlias = Generator[Call | Restart, Any, None]

METHODS: Final = {
    "pool": "create_pool",
    "resize": "resize_pool",
    "remove": "remove_pool",
    "archive": "archive_pool",
    "unarchive": "unarchive_pool",
    "return": "return_units",
    "record": "put_record",
}
"""The verbs whose method has another name."""

BIRTHS: Final = ("hold", "consume", "take", "estimate", "stay", "reserve", "combine")
"""The verbs that give a hold its name."""

COMMANDS: Final[dict[str, type[AnyCommand]]] = {
    "pool": CreatePool,
    "resize": ResizePool,
    "remove": RemovePool,
    "archive": ArchivePool,
    "unarchive": UnarchivePool,
    "hold": PlaceHold,
    "consume": Consume,
    "confirm": ConfirmHold,
    "release": ReleaseHold,
    "extend": ExtendHold,
    "expire": ExpireHold,
    "return": ReturnUnits,
    "record": PutRecord,
    "sweep": Sweep,
}


class Told(Resource[str, None]):
    """A resource whose capacities the story tells."""

    kind = "told"

    def __init__(self) -> None:
        self.capacities: dict[str, int] = {}
        self.ends: dict[str, int | None] = {}

    def capacity(self, tx: Any, key: str, window: None) -> int:
        """As it was told last; nothing, if it never was."""
        del tx, window
        return self.capacities.get(key, 0)

    def closes(self, key: str, window: None) -> datetime | None:
        """As it was told last; never, if it was not."""
        del window
        return datetime_of(self.ends.get(key))


class Commander:
    """What a telling knows, and how it commands and judges."""

    def __init__(self, story: Story, clock: FakeClock) -> None:
        self.story, self.clock = story, clock
        self.holds: dict[str, Hold] = {}
        self.claims: dict[str, Claim] = {}
        self.cursors: dict[str, str] = {}
        self.faces: dict[str, Face] = {}
        self.told = Told()
        self.tenant: str | None = None
        self.around: dict[str, Any] = {}
        self.where = ""
        self.checked = 0

    # Setting the scene

    def on_clock(self, line: Line) -> Step:
        """Set it, or move it."""
        start = self.clock.now() if line.said["relative"] else 0
        self.clock.set(start + line.said["slot"])
        yield from ()

    def on_tenant(self, line: Line) -> Step:
        """Speak for another tenant."""
        self.tenant = line.said["tenant"]
        yield from ()

    def on_context(self, line: Line) -> Step:
        """Carry another context."""
        self.around = line.said
        yield from ()

    def on_restart(self, _line: Line) -> Step:
        """Have the driver close and open the kernel."""
        yield Restart()

    def on_capacity(self, line: Line) -> Step:
        """What the application answers from now on."""
        self.told.capacities[line.said["key"]] = line.said["total"]
        self.told.ends[line.said["key"]] = line.said.get("closes")
        yield from ()

    # Commands

    def on_reserve(self, line: Line) -> Step:
        """A hold on a resource."""
        said = dict(line.said)
        del said["name"]
        call = self.call("hold", said.pop("key"), **said)
        self.judge(line, (yield structs.replace(call, face=Face("resource", (self.told,)))))

    def command(self, line: Line) -> Step:
        """Any command: call its method, judge its answer."""
        said = dict(line.said)
        positional: tuple[Any, ...] = ()
        if line.verb in ("hold", "consume"):
            positional = said.pop("what")
            del said["name"]
        elif _names_pool(line):
            said["pool"] = said.pop("name").removeprefix("pool/")
        elif "name" in said:
            positional = (self.shown(line, said),)
        elif line.verb == "record":
            positional = (said.pop("kind"), said.pop("id"), said.pop("body", None))
        elif line.verb in ("pool", "resize", "remove", "archive", "unarchive"):
            positional = (said.pop("id"),)
        answer = yield self.call(METHODS.get(line.verb, line.verb), *positional, **said)
        self.judge(line, answer)

    def on_change(self, line: Line) -> Step:
        """Other limits from now on."""
        self.judge(line, (yield self.call("change_limits", **line.said)))

    def on_batch(self, line: Line) -> Step:
        """Several commands as one `apply`."""
        known: dict[str, str | None] = {}
        commands = [self.as_command(inner, known) for inner in line.inside]
        answers = yield self.call("apply", commands, atomic=line.said["atomic"], op=line.said.get("op"))
        if line.want is not None or isinstance(answers, Exception):
            self.judge(line, answers)
            return
        for inner, answer in zip(line.inside, answers, strict=True):
            self.judge(inner, answer)

    def as_command(self, line: Line, known: dict[str, str | None]) -> AnyCommand:
        """A line of a batch; what the same batch places can be named in it if its id and owner are given."""
        said = dict(line.said)
        if line.verb in ("hold", "consume"):
            said["legs"] = _legs(*said.pop("what"))
            if "id" in said:
                known[said["name"]] = said["id"]
            del said["name"]
        elif _names_pool(line):
            return ReturnToPool(id=said.pop("name").removeprefix("pool/"), **said)
        elif "name" in said:
            name = said["name"]
            if name in known and name not in self.holds:
                said["name"] = "@" + str(known[name])
            shown = self.shown(line, said)
            said["id"] = shown.id if isinstance(shown, Hold) else shown
            if isinstance(shown, Hold) and line.verb != "expire":
                said.setdefault("owner", shown.owner)
        return COMMANDS[line.verb](**said)

    def shown(self, line: Line, said: dict[str, Any]) -> Any:
        """What the line shows to name its hold: the hold itself, its ticket, or only an id. Takes that out of `said`."""
        name, via = said.pop("name"), said.pop("via", None)
        if name.startswith("@"):
            return identity(name)
        hold = self.holds.get(name)
        if hold is None:
            raise StoryFailed(f"{line.where}: no hold was granted under the name {name!r}\n    {line.text}")
        if via == "ticket":
            return hold.ticket
        return hold.id if "owner" in said and said["owner"] is None else hold

    def judge(self, line: Line, answer: Any) -> None:
        """Compare the answer with what was wanted, and remember a hold by its name."""
        wanted = line.want
        if wanted is not None:
            self.checked += 1
            self.complain(line, complaints(structs.replace(wanted, fields=self._by_id(wanted.fields)), answer))
        elif isinstance(answer, Exception):
            self.complain(line, [f"got {type(answer).__name__}: {answer}"])
        if isinstance(answer, Hold) and line.verb in BIRTHS:
            before = self.holds.setdefault(line.said["name"], answer)
            if (before.id, before.owner) != (answer.id, answer.owner):
                self.complain(line, [f"the name {line.said['name']!r} belongs to another hold: {before.id}"])

    def _by_id(self, fields: dict[str, Any]) -> dict[str, Any]:
        """What is wanted, with ids for the names of holds."""
        subject, holds = fields.get("subject"), fields.get("holds", ())
        return {
            **fields,
            **({"subject": self.holds[subject].id} if subject in self.holds else {}),
            **({"holds": tuple(self._id_of(name) for name in holds)} if "holds" in fields else {}),
        }

    def _id_of(self, name: str) -> str:
        return self.holds[name].id if name in self.holds else name

    def verified(self, line: Line) -> Step:
        """The journal and the rows agree."""
        report = yield Call("verify", where=self.where)
        if not isinstance(report, VerifyReport):
            self.complain(line, [f"verify failed: {report}"])
        self.complain(line, [f"verify: {difference}" for difference in report.differences])

    def complain(self, line: Line, found: list[str]) -> None:
        """Fail, naming the line, if there is anything to complain of."""
        if found:
            raise StoryFailed(f"{line.where}: {'; '.join(found)}\n    {line.text}\n    at {self.clock.now() / 1e6:g} s")

    def compare(self, line: Line, answer: Any, name: Any) -> None:
        """A list, in order."""
        self.checked += 1
        if isinstance(answer, Exception):
            self.complain(line, [f"got {type(answer).__name__}: {answer}"])
        found = [str(name(item)) for item in answer]
        if found != line.listed:
            self.complain(line, [f"expected {_spelled(line.listed or [])}, got {_spelled(found)}"])

    def call(self, method: str, *positional: Any, **options: Any) -> Call:
        """A call as the present tenant, in the present context."""
        return Call(method, positional, options, self.tenant, self.around, self.where)


def _names_pool(line: Line) -> bool:
    """Whether units are to be returned by pool."""
    return line.verb == "return" and bool(line.said["name"].startswith("pool/"))


def _legs(what: Any, quantity: Any) -> tuple[Leg, ...]:
    """What a line says of pools, as legs."""
    if isinstance(what, str):
        return (Leg(what, 1 if quantity is None else quantity),)
    return tuple(what if isinstance(what, list) else itertools.starmap(Leg, what.items()))


def _spelled(found: list[str]) -> str:
    return " ".join(found) or "nothing"
