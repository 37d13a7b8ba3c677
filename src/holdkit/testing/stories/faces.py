"""Faces in a story: claims, items, rates, budgets and calendars. Claims and faces are known by their names."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from ... import Claim, Hold, PlaceHold, Seat, claim, items
from ...core.commands import AnyCommand
from ...kernel.normalise import Legs, legs_of
from .commands import CommandVerbs, Face, Step, StoryFailed
from .parser import Statement


class FaceVerbs(CommandVerbs):
    """The verbs of claims and items."""

    def on_claim_reserve(self, statement: Statement) -> Step:
        """Claim a key under a name; the same owner may get the same claim again."""
        arguments = dict(statement.arguments)
        name = arguments.pop("name")
        answer = yield self.call("claims.reserve", arguments.pop("type"), arguments.pop("value"), **arguments)
        self.check(statement, answer)
        if isinstance(answer, Claim):
            self.claims[name] = answer

    def on_claim_confirm(self, statement: Statement) -> Step:
        """Confirm it for an entity."""
        yield from self._claim(statement, "claims.confirm")

    def on_claim_release(self, statement: Statement) -> Step:
        """Release it."""
        yield from self._claim(statement, "claims.release")

    def on_claim_extend(self, statement: Statement) -> Step:
        """Extend its deadline."""
        yield from self._claim(statement, "claims.extend")

    def on_claim_forget(self, statement: Statement) -> Step:
        """Free a confirmed key."""
        arguments = statement.arguments
        yield from self._claim(structs.replace(statement, arguments=arguments), "claims.forget")

    def _claim(self, statement: Statement, method: str) -> Step:
        arguments = dict(statement.arguments)
        name, via = arguments.pop("name"), arguments.pop("via", None)
        claim = self.claims.get(name)
        if claim is None:
            raise StoryFailed(f"{statement.where}: nothing was claimed under the name {name!r}\n    {statement.text}")
        reference: Any = {"ticket": claim.ticket, "id": claim.id}.get(via or "", claim)
        if via is None and "token" in arguments and arguments["token"] is None:
            reference = claim.id
        self.check(statement, (yield self.call(method, reference, **arguments)))

    def on_claim_find(self, statement: Statement) -> Step:
        """A key in its present or last life, or nothing."""
        answer = yield self.call("claims.find", **statement.arguments)
        assert statement.expected is not None
        if answer is None or statement.expected.word == "nothing":
            self.checked += 1
            if (answer is None) != (statement.expected.word == "nothing"):
                self.fail_if(statement, [f"found {answer!r}"])
        else:
            self.check(statement, answer)

    def on_claim_taken(self, statement: Statement) -> Step:
        """Whether the key is claimed or confirmed."""
        answer = yield self.call("claims.is_reserved", statement.arguments["type"], statement.arguments["value"])
        self.compare(statement, [str(answer).lower()], str)

    def on_items_add(self, statement: Statement) -> Step:
        """Create items."""
        answer = yield self.call("items.add", statement.arguments["ids"])
        self.check(statement, answer)

    def on_items_reopen(self, statement: Statement) -> Step:
        """Make spent items available again."""
        arguments = dict(statement.arguments)
        self.check(statement, (yield self.call("items.reopen", arguments.pop("ids"), **arguments)))

    def on_items_reserve(self, statement: Statement) -> Step:
        """Hold several under a name."""
        arguments = dict(statement.arguments)
        name = arguments.pop("name")
        answer = yield self.call("items.reserve", arguments.pop("ids"), **arguments)
        self.check(statement, answer)
        if isinstance(answer, Hold):
            self.holds[name] = answer

    def on_items_release(self, statement: Statement) -> Step:
        """Make them available again."""
        arguments = dict(statement.arguments)
        self.check(statement, (yield self.call("items.release", self.reference(statement, arguments), **arguments)))

    def on_items_finalize(self, statement: Statement) -> Step:
        """Spend them."""
        arguments = dict(statement.arguments)
        self.check(statement, (yield self.call("items.finalize", self.reference(statement, arguments), **arguments)))

    def on_combine(self, statement: Statement) -> Step:
        """Units, keys and items in one hold."""
        arguments = dict(statement.arguments)
        del arguments["name"]
        self.check(statement, (yield self.call("hold", [_part(word) for word in arguments.pop("ids")], **arguments)))

    def as_command(self, statement: Statement, known: dict[str, str | None]) -> AnyCommand:
        """The same within a batch."""
        if statement.verb != "combine":
            return super().as_command(statement, known)
        arguments = {name: value for name, value in statement.arguments.items() if name not in ("name", "ids")}
        return PlaceHold(
            legs=Legs(leg for word in statement.arguments["ids"] for leg in legs_of([_part(word)], None)), **arguments
        )

    def on_items_states(self, statement: Statement) -> Step:
        """The state of each, in the order given; with an owner, what is its own is marked."""
        arguments = dict(statement.arguments)
        answer = yield self.call("items.states", arguments.pop("ids"), **arguments)
        self.compare(statement, answer, lambda item: f"{item.state}/yours" if item.yours else item.state)

    def on_items_seats(self, statement: Statement) -> Step:
        """Add seats of one row: by their positions, and called so too."""
        arguments = dict(statement.arguments)
        section, row, kind = arguments["section"], arguments["row"], arguments.get("kind", "")
        seats = [Seat(f"{row}{number}", section, row, number, kind=kind) for number in map(int, arguments["ids"])]
        self.check(statement, (yield self.call("items.add", seats)))

    def on_items_best(self, statement: Statement) -> Step:
        """Hold the best free seats under a name."""
        arguments = dict(statement.arguments)
        name, together = arguments.pop("name"), arguments.pop("together", "true")
        chosen = {"true": True, "false": False}.get(together, together)
        answer = yield self.call("items.best_available", int(arguments.pop("count")), together=chosen, **arguments)
        self.check(statement, answer)
        if isinstance(answer, Hold):
            self.holds[name] = answer


def _part(word: str) -> Any:
    """`key/email/x`, `item/s1`, or `gpu:2`."""
    kind, _, rest = word.partition("/")
    if kind == "key":
        return claim(*rest.split("/", 1))
    if kind == "item":
        return items(rest)
    pool, _, quantity = word.rpartition(":")
    return (pool, int(quantity))


METHODS: Final = {"use": "consume", "estimate": "hold", "spent": "confirm", "stay": "hold"}


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

    def on_use(self, statement: Statement) -> Step:
        """Use a rate, hold an estimate, confirm what was spent, hold rooms: methods of a face that was made
        before."""
        arguments = dict(statement.arguments)
        face, target = arguments.pop("face"), arguments.pop("asked")
        if face not in self.faces:
            raise StoryFailed(f"{statement.where}: nothing was made under the name {face!r}\n    {statement.text}")
        name = arguments.pop("hold", None)
        positional: tuple[Any, ...] = target if name is not None else (self.reference(statement, arguments), *target)
        call = self.call(METHODS[statement.verb], *positional, **arguments)
        answer = yield structs.replace(call, face=self.faces[face])
        self.check(
            statement if name is None else structs.replace(statement, arguments={**statement.arguments, "name": name}),
            answer,
        )
        yield from self.verified(statement)

    on_estimate = on_spent = on_stay = on_use
