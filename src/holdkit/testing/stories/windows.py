"""Telling of rates, budgets and calendars: what is made is known by its name, and asked from then on."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from .commanding import Commander, Face, Step, StoryFailed
from .language import Line

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
