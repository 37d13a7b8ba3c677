"""Write the diagrams of docs/images from what the code does (`make gen`): the states of a hold, and the phases of a saga.

The arrows of a hold are learned by trying: every verb on a hold in every state, on the memory engine. Those of a saga come from the table
that its driver goes by. `--check` writes nothing and fails if a picture is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

import holdkit
from holdkit import Hold, Refused, State
from holdkit.faces.saga_steps import ENDED, UNFINISHED, Step, next_step
from holdkit.sagas import Phase
from holdkit.testing import FakeClock

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs/images"
Arrows: TypeAlias = dict[tuple[str, str], list[str]]
"""From, to, and what leads there. From nothing: how it begins."""


class Trial:
    """A pool of one unit, and a hold on it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.hk = holdkit.connect("memory://", clock=self.clock)
        self.hk.create_pool("pool", total=1)
        self.hold: Hold | None = None

    @property
    def mine(self) -> Hold:
        """The hold that is tried."""
        assert self.hold is not None
        return self.hold

    def place(self) -> None:
        """Units are there."""
        self.hold = self.hk.hold("pool", 1, ttl=60)

    def wait(self) -> None:
        """All units are taken, for longer."""
        self.hk.hold("pool", 1, ttl="1h")
        self.hold = self.hk.join("pool", 1, ttl=60, offer_ttl=60)

    def consume(self) -> None:
        """Hold and confirm in one step."""
        self.hold = self.hk.consume("pool", 1)


BIRTHS: Final[dict[str, Callable[[Trial], object]]] = {
    "hold": Trial.place,
    "join": Trial.wait,
    "consume": Trial.consume,
}
VERBS: Final[dict[str, Callable[[Trial], object]]] = {
    "extend": lambda it: it.hk.extend(it.mine, by=60),
    "offer": lambda it: it.hk.admin.resize_pool("pool", 2),
    "confirm": lambda it: it.hk.confirm(it.mine),
    "release": lambda it: it.hk.release(it.mine),
    "deadline": lambda it: it.clock.advance(60),
    "return": lambda it: it.hk.return_units(it.mine),
}
NOTHING: Final = ("offer", "deadline")
"""What does not concern a hold that it leaves as it was."""


def hold_arrows() -> Arrows:
    """Every state that a hold has after a verb, by the state that it had before."""
    found: Arrows = {}
    for birth, begin in BIRTHS.items():
        state = _after(begin)
        assert state is not None
        found.setdefault(("", state), []).append(birth)
        for name, verb in VERBS.items():
            after = _after(begin, verb)
            if after is not None and not (after == state and name in NOTHING):
                arrows = found.setdefault((state, after), [])
                arrows += [name] if name not in arrows else []
    return found


def _after(*steps: Callable[[Trial], object]) -> str | None:
    """The state of the hold behind these steps, or None if one was refused or changed nothing that can be seen."""
    trial = Trial()
    with trial.hk:
        try:
            for step in steps:
                step(trial)
        except Refused:
            return None
        return str(trial.hk.get(trial.mine).state)


def saga_arrows() -> Arrows:
    """From the table: what the next step of each unfinished phase leads to."""
    leads = {
        Step.RESERVE: Phase.FINALIZING,
        Step.ROLL_FORWARD: Phase.DONE,
        Step.FINISH: Phase.DONE,
        Step.PARK: Phase.PARKED,
    }
    found: Arrows = {("", str(Phase.RESERVING)): ["run"]}
    for phase in sorted(UNFINISHED):
        for state in (None, *State):
            after = leads[next_step(phase, state)]
            label = f"{state or 'missing'}"
            found.setdefault((str(phase), str(after)), []).append(label)
    found = {key: [f"hold {' or '.join(labels)}"] if key[0] else labels for key, labels in found.items()}
    found[str(Phase.RESERVING), str(Phase.FINALIZING)] = ["held and validated"]
    found[str(Phase.RESERVING), str(Phase.ABORTED)] = ["refused, or validate raised"]
    found.update({(str(Phase.PARKED), str(end)): ["resolve"] for end in sorted(ENDED)})
    return found


# Drawing

WIDTH: Final = 124
HEIGHT: Final = 38
STYLE: Final = """<style>text{font:13px system-ui,sans-serif;fill:#1f2937}.s{font-weight:600}.l{font-size:11.5px;fill:#4b5563;stroke:#fff;stroke-width:4px;paint-order:stroke}
rect{fill:#f0fdfa;stroke:#0d9488;stroke-width:1.5}.f{fill:#f3f4f6;stroke:#6b7280}path{fill:none;stroke:#6b7280;stroke-width:1.3}
@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.l{fill:#9ca3af;stroke:#111827}rect{fill:#134e4a}.f{fill:#374151}}</style>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#6b7280"/></marker></defs>"""


class Box(Struct, frozen=True):
    """A state, and where its middle is."""

    name: str
    x: int
    y: int


def drawn(title: str, boxes: tuple[Box, ...], arrows: Arrows) -> str:
    """The picture."""
    places = {box.name: box for box in boxes}
    ends = {box.name for box in boxes if not any(before == box.name and after != before for before, after in arrows)}
    parts = [part for key, labels in sorted(arrows.items()) for part in _arrow(places, *key, ", ".join(labels))]
    for box in boxes:
        kind = ' class="f"' if box.name in ends else ""
        at = f'x="{box.x - WIDTH // 2}" y="{box.y - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="8"'
        parts.append(
            f'<rect{kind} {at}/><text class="s" x="{box.x}" y="{box.y + 4}" text-anchor="middle">{box.name}</text>'
        )
    right, bottom = max(box.x for box in boxes) + 90, max(box.y for box in boxes) + 60
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {bottom}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, *parts, "</svg>"]) + "\n"


def _arrow(places: dict[str, Box], before: str, after: str, label: str) -> Iterator[str]:
    to = places[after]
    if not before:  # how it begins: from above
        yield f'<path marker-end="url(#a)" d="M{to.x} {to.y - 62}V{to.y - HEIGHT // 2 - 2}"/>'
        yield _label(to.x + 6, to.y - 46, label, "start")
        return
    start = places[before]
    if before == after:  # a loop below the box
        y = to.y + HEIGHT // 2
        yield f'<path marker-end="url(#a)" d="M{to.x - 24} {y}C{to.x - 24} {y + 28} {to.x + 24} {y + 28} {to.x + 24} {y + 2}"/>'
        yield _label(to.x, y + 34, label, "middle")
        return
    right = to.x > start.x
    x1, x2 = start.x + (WIDTH // 2 if right else 0), to.x - (WIDTH // 2 + 2 if right else 0)
    edge = HEIGHT // 2 if to.y > start.y else -HEIGHT // 2
    y1, y2 = start.y + (0 if right else edge), to.y - (0 if right else edge)
    middle = (x1 + x2) // 2
    bend = f"C{middle} {y1} {middle} {y2} {x2} {y2}" if right else f"L{x2} {y2}"
    yield f'<path marker-end="url(#a)" d="M{x1} {y1}{bend}"/>'
    if right:
        yield _label(x1 + 3 * (x2 - x1) // 5, y1 + 16 * (y2 - y1) // 25 - 4, label, "middle")
    else:
        yield _label(x1 + 6, (y1 + y2) // 2 + 4, label, "start")


def _label(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text class="l" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "hold-states.svg": lambda: drawn(
        "The states of a hold",
        (Box("waiting", 80, 250), Box("held", 330, 110), Box("confirmed", 620, 80), Box("released", 620, 190), Box("expired", 620, 290)),
        hold_arrows(),
    ),
    "saga-phases.svg": lambda: drawn(
        "The phases of a saga",
        (Box("reserving", 80, 170), Box("finalizing", 380, 70), Box("done", 780, 70), Box("parked", 780, 170), Box("aborted", 780, 270)),
        saga_arrows(),
    ),
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Write the pictures, or check them."""
    current = True
    for name, draw in PICTURES.items():
        path, wanted = IMAGES / name, draw()
        if path.exists() and path.read_text("utf-8") == wanted:
            continue
        current = False
        print(f"docs/images/{name}" + (" is not current: make gen" if "--check" in arguments else ""))
        if "--check" not in arguments:
            path.write_text(wanted, "utf-8")
    return 1 if "--check" in arguments and not current else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
