"""Commands in a story: statements become calls, which a runner makes, and answers are checked.

It is a generator, so that it serves sync and async. Checks every answer as it comes; opens, closes and awaits
nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any, Final, TypeAlias

from msgspec import Struct, field, structs

from ... import Hold, InvalidRequest, Resource
from ...commands import ReturnToPool
from ...core import commands
from ...core.commands import AnyCommand
from ...errors import Aborted
from ...kernel.arguments import present
from ...kernel.times import datetime_of
from ...reports import VerifyReport
from ..clock import FakeClock
from .expectations import differences, word_of
from .parser import Statement, Story
from .values import identity, joined, legs_of


class StoryFailed(AssertionError):
    """An answer is not what the story expects."""


class Face(Struct, frozen=True):
    """A face that a method of the kernel returns, to be called instead of the kernel."""

    method: str
    positional: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def made_by(self, kernel: Any) -> Any:
        """Make the face of this kernel."""
        return getattr(kernel, self.method)(*self.positional, **self.options)


class Call(Struct, frozen=True):
    """A method of the kernel, to be called for a tenant and in a context. The answer is its result or its exception."""

    method: str
    positional: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    tenant: str | None = None
    context_fields: dict[str, Any] = field(default_factory=dict)
    where: str = ""
    """The statement it came from, for an unexpected exception."""
    face: Face | None = None

    def target(self, kernel: Any) -> Any:
        """Return the object whose method is called."""
        bound = kernel if self.tenant is None else kernel.tenant(self.tenant)
        return bound if self.face is None else self.face.made_by(bound)


class Restart(Struct, frozen=True):
    """Close the kernel and open it again, if its engine is durable."""


Script: TypeAlias = Generator[Call | Restart, Any, int]
Step: TypeAlias = Generator[Call | Restart, Any, None]

METHODS: Final = {
    "pool": "create_pool",
    "resize": "admin.resize_pool",
    "limit": "admin.limit_pool",
    "remove": "admin.remove_pool",
    "archive": "admin.archive_pool",
    "unarchive": "admin.unarchive_pool",
    "expire": "admin.expire",
    "return": "return_units",
    "record": "admin.records.put",
}
"""The verbs whose method has another name."""

_WORDS: Final = {"create_pool": "pool", "put_record": "record"}
COMMANDS: Final = {_WORDS.get(verb, verb.removesuffix("_pool")): kind for verb, kind in commands.COMMANDS.items()}
"""The command of each verb of a story."""
PLACING_VERBS: Final = tuple(word for word, kind in COMMANDS.items() if kind.names == "legs")
NAMING_VERBS: Final = (*PLACING_VERBS, "rate consume", "budget hold", "calendar hold", "resource hold", "combine")
"""The verbs that give a hold its name."""


class StoryResource(Resource[str, None]):
    """A resource whose capacities the story sets."""

    kind = "told"

    def __init__(self) -> None:
        self.capacities: dict[str, int] = {}
        self.ends: dict[str, int | None] = {}

    def capacity(self, tx: Any, key: str, window: None) -> int:
        """Return the capacity that was set last; 0 before that."""
        del tx, window
        return self.capacities.get(key, 0)

    def closes(self, key: str, window: None) -> datetime | None:
        """Return the end that was set last; None before that."""
        del window
        return datetime_of(self.ends.get(key))


class CommandVerbs:
    """The state of a story that runs, and the verbs that are commands."""

    def __init__(self, story: Story, clock: FakeClock) -> None:
        self.story, self.clock = story, clock
        self.holds: dict[str, Hold] = {}
        self.cursors: dict[str, str] = {}
        self.faces: dict[str, Face] = {}
        self.resource = StoryResource()
        self.tenant: str | None = None
        self.context_fields: dict[str, Any] = {}
        self.where = ""
        self.checked = 0

    # Setup

    def on_clock(self, statement: Statement) -> Step:
        """Set or move the clock."""
        start = self.clock.now() if statement.arguments["relative"] else 0
        self.clock.set(start + statement.arguments["slot"])
        yield from ()

    def on_tenant(self, statement: Statement) -> Step:
        """Switch to another tenant."""
        self.tenant = statement.arguments["tenant"]
        yield from ()

    def on_context(self, statement: Statement) -> Step:
        """Switch to another context."""
        self.context_fields = statement.arguments
        yield from ()

    def on_restart(self, _statement: Statement) -> Step:
        """Have the runner close and open the kernel."""
        yield Restart()

    def on_capacity(self, statement: Statement) -> Step:
        """Set what the application answers from now on."""
        self.resource.capacities[statement.arguments["key"]] = statement.arguments["total"]
        self.resource.ends[statement.arguments["key"]] = statement.arguments.get("closes")
        yield from ()

    # Commands

    def on_resource_hold(self, statement: Statement) -> Step:
        """Place a hold on a resource."""
        arguments = dict(statement.arguments)
        del arguments["name"]
        call = self.call("hold", arguments.pop("key"), **arguments)
        self.check(statement, (yield structs.replace(call, face=Face("resource", (self.resource,)))))

    def command(self, statement: Statement) -> Step:
        """Call the method of a command and check its answer."""
        arguments, method = dict(statement.arguments), METHODS.get(statement.verb, statement.verb)
        positional: tuple[Any, ...] = ()
        if statement.verb in PLACING_VERBS:
            positional = arguments.pop("what")
            if statement.verb == "join" and positional[1] is None:
                positional = positional[:1]
            del arguments["name"]
        elif _names_pool(statement):
            if not arguments.pop("force", False):  # refused: only a command can ask for that
                method, positional, arguments = "apply", ([self.as_command(statement, {})],), {}
            else:
                method, positional = "admin.free", (arguments.pop("name").removeprefix("pool/"),)
                arguments.setdefault("reason", None)
        elif "name" in arguments:
            positional = (self.presented(statement, arguments),)
        elif statement.verb == "record":
            positional = (arguments.pop("kind"), arguments.pop("id"), arguments.pop("body", None))
        elif "id" in arguments:
            positional = (arguments.pop("id"),)
        if arguments.pop("force", False):
            if statement.verb == "join":  # only as a command
                outcomes = yield self.call("apply", [self.as_command(statement, {})], atomic=True)
                self.check(statement, outcomes if isinstance(outcomes, Exception) else outcomes[0].value)
                return
            method = f"admin.{method}"
            arguments.setdefault("reason", None)
            arguments.pop("token", None)
        answer = yield self.call(method, *positional, **arguments)
        self.check(statement, answer)

    def on_change(self, statement: Statement) -> Step:
        """Change limits."""
        self.check(statement, (yield self.call("admin.change_limits", **statement.arguments)))

    def on_batch(self, statement: Statement) -> Step:
        """Execute several commands in one `apply`."""
        known: dict[str, str | None] = {}
        commands = [self.as_command(inner, known) for inner in statement.inside]
        outcomes = yield self.call(
            "apply", commands, atomic=statement.arguments["atomic"], op=statement.arguments.get("op")
        )
        index = getattr(outcomes, "index", None) if isinstance(outcomes, Exception) else None
        if statement.expected is not None or (isinstance(outcomes, Exception) and index is None):
            self.check(statement, outcomes)
            return
        for number, inner in enumerate(statement.inside):
            if index is None:
                self.check(inner, outcomes[number].refusal or outcomes[number].value)
            elif number == index:
                self.check(inner, outcomes)
            else:  # nothing was done, which a story says of each other command
                replayed = getattr(outcomes, "replayed", False)
                self.check(inner, Aborted(subject=word_of(outcomes), replayed=replayed))

    def as_command(self, statement: Statement, known: dict[str, str | None]) -> AnyCommand:
        """Return the command of a statement in a batch. It can name a hold that the batch places if its id and owner are given."""
        arguments = dict(statement.arguments)
        if statement.verb in PLACING_VERBS:
            arguments["legs"] = legs_of(*arguments.pop("what"))
            if "id" in arguments:
                known[arguments["name"]] = arguments["id"]
            del arguments["name"]
        elif _names_pool(statement):
            return ReturnToPool(id=arguments.pop("name").removeprefix("pool/"), **arguments)
        elif "name" in arguments:
            name = arguments["name"]
            if name in known and name not in self.holds:
                arguments["name"] = "@" + str(known[name])
            reference = self.reference(statement, arguments)
            arguments["id"] = reference.id if isinstance(reference, Hold) else reference
            if isinstance(reference, Hold) and statement.verb != "expire":
                arguments.setdefault("token", reference.token)
        command: AnyCommand = COMMANDS[statement.verb](**arguments)
        return command

    def reference(self, statement: Statement, arguments: dict[str, Any]) -> Any:
        """Return what the statement names its hold by: the hold itself, its ticket, or only an id. Remove that from the
        arguments."""
        name, via = arguments.pop("name"), arguments.pop("via", None)
        if name.startswith("@"):
            return identity(name)
        hold = self.holds.get(name)
        if hold is None:
            raise StoryFailed(f"{statement.where}: no hold was granted under the name {name!r}\n    {statement.text}")
        if via == "ticket":
            return hold.ticket
        return hold.id if "token" in arguments and arguments["token"] is None else hold

    def presented(self, statement: Statement, arguments: dict[str, Any]) -> Any:
        """Return what the statement ends its hold by: the hold itself, its ticket, or its id with another token or none."""
        reference = self.reference(statement, arguments)
        if isinstance(reference, Hold) and "token" not in arguments:
            return reference
        id, token = reference.id if isinstance(reference, Hold) else reference, arguments.pop("token", None)
        try:
            return present(id, token)
        except InvalidRequest:
            return id  # the kernel refuses it as well

    def check(self, statement: Statement, answer: Any) -> None:
        """Compare the answer with what is expected, and remember a hold by its name."""
        expected = statement.expected
        if expected is not None:
            self.checked += 1
            self.fail_if(statement, differences(structs.replace(expected, fields=self._by_id(expected.fields)), answer))
        elif isinstance(answer, Exception):
            self.fail_if(statement, [f"got {type(answer).__name__}: {answer}"])
        if isinstance(answer, Hold) and statement.verb in NAMING_VERBS:
            before = self.holds.setdefault(statement.arguments["name"], answer)
            if (before.id, before.token) != (answer.id, answer.token):
                name = statement.arguments["name"]
                self.fail_if(statement, [f"the name {name!r} belongs to another hold: {before.id}"])

    def _by_id(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the expected fields, with ids instead of the names of holds."""
        subject, holds = fields.get("subject"), fields.get("holds", ())
        return {
            **fields,
            **({"subject": self.holds[subject].id} if subject in self.holds else {}),
            **({"holds": tuple(self._id_of(name) for name in holds)} if "holds" in fields else {}),
        }

    def _id_of(self, name: str) -> str:
        return self.holds[name].id if name in self.holds else name

    def verified(self, statement: Statement) -> Step:
        """Require that journal and rows agree."""
        report = yield Call("admin.verify", where=self.where)
        if not isinstance(report, VerifyReport):
            self.fail_if(statement, [f"verify failed: {report}"])
        self.fail_if(statement, [f"verify: {difference}" for difference in report.differences])

    def fail_if(self, statement: Statement, found: list[str]) -> None:
        """Raise `StoryFailed`, naming the statement, if there is any difference."""
        if found:
            at = f"at {self.clock.now() / 1e6:g} s"
            raise StoryFailed(f"{statement.where}: {'; '.join(found)}\n    {statement.text}\n    {at}")

    def compare(self, statement: Statement, answer: Any, name: Any) -> None:
        """Compare a list, in order."""
        self.checked += 1
        if isinstance(answer, Exception):
            self.fail_if(statement, [f"got {type(answer).__name__}: {answer}"])
        found = [str(name(item)) for item in answer]
        if found != statement.listed:
            self.fail_if(statement, [f"expected {joined(statement.listed or [])}, got {joined(found)}"])

    def call(self, method: str, *positional: Any, **options: Any) -> Call:
        """Return a call for the current tenant, in the current context."""
        return Call(method, positional, options, self.tenant, self.context_fields, self.where)


def _names_pool(statement: Statement) -> bool:
    """Return whether units are returned by pool."""
    return statement.verb == "return" and bool(statement.arguments["name"].startswith("pool/"))
