"""The faces in a story: claims and items. Lines become calls, as everywhere; a claim is remembered by its name."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from ... import Claim, Hold, PlaceHold, items, key, units
from ...core.commands import AnyCommand
from ...kernel.normalise import Legs, legs_of
from .commands import Commander, Face, Step, StoryFailed
from .parser import Line


class Facing(Commander):
    """What a telling does with the faces."""

    def on_claim_reserve(self, line: Line) -> Step:
        """Claim a key under a name; the same owner may get the same claim again."""
        said = dict(line.said)
        name = said.pop("name")
        answer = yield self.call("claims.reserve", said.pop("type"), said.pop("value"), **said)
        self.judge(line, answer)
        if isinstance(answer, Claim):
            self.claims[name] = answer

    def on_claim_confirm(self, line: Line) -> Step:
        """It belongs to an entity."""
        yield from self._claim(line, "claims.confirm")

    def on_claim_release(self, line: Line) -> Step:
        """It is free again."""
        yield from self._claim(line, "claims.release")

    def on_claim_extend(self, line: Line) -> Step:
        """A later deadline."""
        yield from self._claim(line, "claims.extend")

    def on_claim_forget(self, line: Line) -> Step:
        """A confirmed key is free again."""
        said = {name: value for name, value in line.said.items() if name != "rest"}
        yield from self._claim(structs.replace(line, said=said), "claims.forget")

    def _claim(self, line: Line, method: str) -> Step:
        said = dict(line.said)
        name, via = said.pop("name"), said.pop("via", None)
        claim = self.claims.get(name)
        if claim is None:
            raise StoryFailed(f"{line.where}: nothing was claimed under the name {name!r}\n    {line.text}")
        shown: Any = {"ticket": claim.ticket, "id": claim.id}.get(via or "", claim)
        if via is None and "owner" in said and said["owner"] is None:
            shown = claim.id
        self.judge(line, (yield self.call(method, shown, **said)))

    def on_claim_find(self, line: Line) -> Step:
        """A key in its present or last life, or nothing."""
        answer = yield self.call("claims.find", **line.said)
        assert line.want is not None
        if answer is None or line.want.word == "nothing":
            self.checked += 1
            if (answer is None) != (line.want.word == "nothing"):
                self.complain(line, [f"found {answer!r}"])
        else:
            self.judge(line, answer)

    def on_claim_taken(self, line: Line) -> Step:
        """Whether somebody has the key."""
        answer = yield self.call("claims.is_reserved", line.said["type"], line.said["value"])
        self.compare(line, [str(answer).lower()], str)

    def on_items_add(self, line: Line) -> Step:
        """Make items; how many were new is not told."""
        answer = yield self.call("items.add", line.said["ids"])
        self.judge(line, answer)

    def on_items_reopen(self, line: Line) -> Step:
        """Spent ones are available again."""
        said = dict(line.said)
        self.judge(line, (yield self.call("items.reopen", said.pop("ids"), **said)))

    def on_items_reserve(self, line: Line) -> Step:
        """Take several under a name."""
        said = dict(line.said)
        name = said.pop("name")
        answer = yield self.call("items.reserve", said.pop("ids"), **said)
        self.judge(line, answer)
        if isinstance(answer, Hold):
            self.holds[name] = answer

    def on_items_release(self, line: Line) -> Step:
        """Available again."""
        said = dict(line.said)
        self.judge(line, (yield self.call("items.release", self.shown(line, said), **said)))

    def on_items_finalize(self, line: Line) -> Step:
        """Spent."""
        said = dict(line.said)
        self.judge(line, (yield self.call("items.finalize", self.shown(line, said), **said)))

    def on_combine(self, line: Line) -> Step:
        """Units, keys and items in one hold."""
        said = dict(line.said)
        del said["name"]
        self.judge(line, (yield self.call("hold", [_part(word) for word in said.pop("ids")], **said)))

    def as_command(self, line: Line, known: dict[str, str | None]) -> AnyCommand:
        """The same within a batch."""
        if line.verb != "combine":
            return super().as_command(line, known)
        said = {name: value for name, value in line.said.items() if name not in ("name", "ids")}
        return PlaceHold(legs=Legs(leg for word in line.said["ids"] for leg in legs_of([_part(word)], None)), **said)

    def on_items_states(self, line: Line) -> Step:
        """What each is, in the order asked."""
        answer = yield self.call("items.states", line.said["ids"])
        self.compare(line, answer, lambda item: item.state)


def _part(word: str) -> Any:
    """`key/email/x`, `item/s1`, or `gpu:2`."""
    kind, _, rest = word.partition("/")
    if kind == "key":
        return key(*rest.split("/", 1))
    if kind == "item":
        return items(rest)
    pool, _, quantity = word.rpartition(":")
    return units(pool, int(quantity))


METHODS: Final = {"take": "take", "estimate": "hold", "spent": "confirm", "stay": "hold"}


class Windows(Commander):
    """The lines that speak of windows."""

    def on_rate(self, line: Line) -> Step:
        """Make a rate."""
        said = line.said
        self.faces[said["name"]] = Face("rates", (said["name"], *said["allowances"]))
        yield from ()

    def on_budget(self, line: Line) -> Step:
        """Make budgets that are held together."""
        said = line.said
        self.faces[said["name"]] = Face("budgets", (said["name"],), said["budgets"])
        yield from ()

    def on_calendar(self, line: Line) -> Step:
        """Make a calendar."""
        said = dict(line.said)
        name, rooms = said.pop("name"), said.pop("rooms")
        self.faces[name] = Face("calendar", (name, rooms), said)
        yield from ()

    def on_take(self, line: Line) -> Step:
        """Count against a rate, estimate, spend, stay: a method of what was made before."""
        said = dict(line.said)
        face, asked = said.pop("face"), said.pop("asked")
        if face not in self.faces:
            raise StoryFailed(f"{line.where}: nothing was made under the name {face!r}\n    {line.text}")
        name = said.pop("hold", None)
        positional: tuple[Any, ...] = asked if name is not None else (self.shown(line, said), *asked)
        call = self.call(METHODS[line.verb], *positional, **said)
        answer = yield structs.replace(call, face=self.faces[face])
        self.judge(line if name is None else structs.replace(line, said={**line.said, "name": name}), answer)
        yield from self.verified(line)

    on_estimate = on_spent = on_stay = on_take
