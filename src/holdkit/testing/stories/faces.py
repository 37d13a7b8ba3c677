"""Faces in a story: claims, items, seats, rates, budgets and calendars, which are known by their names."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from ... import Hold, Seat, claim, items
from ...commands import PlaceHold
from ...core.commands import AnyCommand
from ...kernel.arguments import Legs, legs_of
from .commands import CommandVerbs, Face, Step, StoryFailed
from .parser import Statement


class FaceVerbs(CommandVerbs):
    """The verbs of claims, items and seats. What they hold has a name, and ends by the verbs of holds."""

    def on_claim_hold(self, statement: Statement) -> Step:
        """Hold a key under a name."""
        yield from self._hold(statement, "claims.hold", "type", "value")

    def on_claim_free(self, statement: Statement) -> Step:
        """Free a confirmed key."""
        arguments = {"reason": "", **statement.arguments}
        self.check(
            statement, (yield self.call("claims.free", arguments.pop("type"), arguments.pop("value"), **arguments))
        )

    def on_claim_get(self, statement: Statement) -> Step:
        """Compare a key in its present or last life, or nothing."""
        arguments = dict(statement.arguments)
        key = [arguments.pop(name) for name in ("type", "value") if name in arguments]
        answer = yield self.call("claims.get", *key, **arguments)
        assert statement.expected is not None
        if answer is None or statement.expected.word == "nothing":
            self.checked += 1
            if (answer is None) != (statement.expected.word == "nothing"):
                self.fail_if(statement, [f"found {answer!r}"])
        else:
            self.check(statement, answer)

    def on_claim_list(self, statement: Statement) -> Step:
        """Compare the keys of an entity, or all."""
        answer = yield self.call("claims.list", **statement.arguments)
        self.compare(statement, answer, lambda claim: claim.key)

    def on_claim_taken(self, statement: Statement) -> Step:
        """Check whether the key is held or confirmed."""
        answer = yield self.call("claims.is_taken", statement.arguments["type"], statement.arguments["value"])
        self.compare(statement, [str(answer).lower()], str)

    def on_items_add(self, statement: Statement) -> Step:
        """Create items."""
        answer = yield self.call("items.add", statement.arguments["ids"])
        self.check(statement, answer)

    def on_items_free(self, statement: Statement) -> Step:
        """Make confirmed items available again."""
        arguments = {"reason": "", **statement.arguments}
        self.check(statement, (yield self.call("items.free", arguments.pop("ids"), **arguments)))

    def on_items_hold(self, statement: Statement) -> Step:
        """Hold several items under a name."""
        yield from self._hold(statement, "items.hold", "ids", ttl=None)

    def on_items_confirm(self, statement: Statement) -> Step:
        """Confirm the hold that has exactly these items."""
        arguments = dict(statement.arguments)
        self.check(statement, (yield self.call("items.confirm", arguments.pop("ids"), **arguments)))

    def on_items_release(self, statement: Statement) -> Step:
        """Release the hold that has exactly these items."""
        arguments = dict(statement.arguments)
        self.check(statement, (yield self.call("items.release", arguments.pop("ids"), **arguments)))

    def on_items_get(self, statement: Statement) -> Step:
        """Compare the state of each item, in the order given; with a token, mark the items of its hold."""
        arguments = dict(statement.arguments)
        answer = yield self.call("items.get", arguments.pop("ids"), **arguments)
        self.compare(statement, answer, lambda item: f"{item.state}/yours" if item.yours else item.state)

    def on_seats_add(self, statement: Statement) -> Step:
        """Add seats of one row: by their positions, and called so too."""
        arguments = dict(statement.arguments)
        section, row, kind = arguments["section"], arguments["row"], arguments.get("kind", "")
        seats = [Seat(f"{row}{number}", section, row, number, kind=kind) for number in map(int, arguments["ids"])]
        self.check(statement, (yield self.call("seats.add", seats)))

    def on_seats_hold(self, statement: Statement) -> Step:
        """Hold the best free seats under a name."""
        together = statement.arguments.get("together", "true")
        arguments = {
            **statement.arguments,
            "count": int(statement.arguments["count"]),
            "together": {"true": True, "false": False}.get(together, together),
        }
        yield from self._hold(structs.replace(statement, arguments=arguments), "seats.hold", "count", ttl=None)

    def _hold(self, statement: Statement, method: str, *positional: str, **defaults: Any) -> Step:
        arguments = {**defaults, **statement.arguments}
        name = arguments.pop("name")
        answer = yield self.call(method, *[arguments.pop(word) for word in positional], **arguments)
        self.check(statement, answer)
        if isinstance(answer, Hold):
            self.holds[name] = answer

    def on_combine(self, statement: Statement) -> Step:
        """Hold units, keys and items in one hold."""
        arguments = dict(statement.arguments)
        del arguments["name"]
        self.check(statement, (yield self.call("hold", [_part(word) for word in arguments.pop("ids")], **arguments)))

    def as_command(self, statement: Statement, known: dict[str, str | None]) -> AnyCommand:
        """Return the command of a `combine` line within a batch."""
        if statement.verb != "combine":
            return super().as_command(statement, known)
        arguments = {name: value for name, value in statement.arguments.items() if name not in ("name", "ids")}
        return PlaceHold(
            legs=Legs(leg for word in statement.arguments["ids"] for leg in legs_of([_part(word)], None)), **arguments
        )


def _part(word: str) -> Any:
    """Read `key/email/x`, `item/s1`, or `gpu:2`."""
    kind, _, rest = word.partition("/")
    if kind == "key":
        return claim(*rest.split("/", 1))
    if kind == "item":
        return items(rest)
    pool, _, quantity = word.rpartition(":")
    return (pool, int(quantity))


class WindowVerbs(CommandVerbs):
    """The verbs of rates, budgets and calendars."""

    def on_rate(self, statement: Statement) -> Step:
        """Make a rate."""
        arguments = statement.arguments
        self.faces[arguments["name"]] = Face("rate", (arguments["name"], *arguments["allowances"]))
        yield from ()

    def on_budget(self, statement: Statement) -> Step:
        """Make budgets that are held together."""
        arguments = statement.arguments
        self.faces[arguments["name"]] = Face("budget", (arguments["name"],), arguments["budgets"])
        yield from ()

    def on_calendar(self, statement: Statement) -> Step:
        """Make a calendar."""
        arguments = dict(statement.arguments)
        name, rooms = arguments.pop("name"), arguments.pop("rooms")
        self.faces[name] = Face("calendar", (name, rooms), arguments)
        yield from ()

    def on_rate_consume(self, statement: Statement) -> Step:
        """Use a rate, hold an estimate, confirm what was spent, hold rooms: methods of a face that was made
        before."""
        arguments = dict(statement.arguments)
        face, target = arguments.pop("face"), arguments.pop("asked")
        if face not in self.faces:
            raise StoryFailed(f"{statement.where}: nothing was made under the name {face!r}\n    {statement.text}")
        name = arguments.pop("hold", None)
        positional: tuple[Any, ...] = target if name is not None else (self.presented(statement, arguments), *target)
        call = self.call(statement.verb.split()[1], *positional, **arguments)
        answer = yield structs.replace(call, face=self.faces[face])
        self.check(
            statement if name is None else structs.replace(statement, arguments={**statement.arguments, "name": name}),
            answer,
        )
        yield from self.verified(statement)

    on_budget_hold = on_budget_confirm = on_calendar_hold = on_rate_consume
