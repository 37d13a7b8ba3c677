"""What the trial server's database begins with beside counted pools: something of every face, a tree, a line, accounts, sagas
and API keys, so that no view of the dashboard is empty. No other module depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from ..errors import HoldkitError, PoolNotFound, Refused
from ..faces._sync.budgets import Budget
from ..faces._sync.kernel import Kernel
from ..faces._sync.windows import Rate
from ..faces.allowances import Allowance
from ..faces.resources import Resource
from ..faces.saga import Saga, SagaStep
from ..faces.seating import Seat
from ._sync.keystore import Keys

TREE: Final = {
    "arena": 900,
    "arena//north": 300,
    "arena//north//lower": 180,
    "arena//north//upper": 160,
    "arena//south": 420,
    "arena//floor": 350,
}
"""A tree of pools: what is held below counts above, too."""
LINE: Final = "clinic/appointments"
"""A pool that is always full, with people in line."""
ROOMS: Final = {"double": 12, "family": 4, "single": 6, "suite": 2}
SECTIONS: Final = {"hall/stalls": ("ABCDEFGHJ", 22), "hall/balcony": ("AB", 16)}
"""Sections of numbered seats: their rows, and the seats of each row."""
TEAMS: Final = ("research", "search", "support", "translation")
FLOORS: Final = ("floor 1", "floor 2", "floor 3")


class GarageResource(Resource[str, date]):
    """Parking spaces by floor and day: a resource whose capacity the application knows."""

    kind = "garage.spaces"

    def capacity(self, tx: Any, key: str, window: date) -> int:  # noqa: ARG002 - the shape of a resource
        """Return the capacity: less on the first floor, where deliveries park."""
        return 8 if key == FLOORS[0] else 20

    def closes(self, key: str, window: date) -> datetime:  # noqa: ARG002 - the shape of a resource
        """Return when the day closes: in the evening."""
        return datetime.combine(window, time(20), UTC)


class DeliverySaga(Saga):
    """A sample saga that books a delivery; one of them fails and is parked for an operator."""

    name = "courier"
    max_attempts = 1

    def reserve(self, intent: Any, step: SagaStep) -> Any:  # noqa: ARG002 - the shape of a saga
        """Reserve one delivery slot."""
        return "courier/slots/today"

    def effect(self, intent: Any, step: SagaStep) -> Any:  # noqa: ARG002 - the shape of a saga
        """Return a result, or fail."""
        if intent["to"] == "Lyon":
            raise ConnectionError("the depot in Lyon does not answer")
        return {"collected": True}


def today(hk: Kernel) -> date:
    """Return the date of the engine's clock, in UTC."""
    return datetime.fromtimestamp(hk._executor.now() / 1_000_000, UTC).date()


def budgets(hk: Kernel) -> Budget:
    """Make budgets of a language model's tokens and calls, by team."""
    return hk.budget("language-model", tokens=Allowance(2_000_000, per="day"), calls=Allowance(600, per="hour"))


def rates(hk: Kernel) -> Rate:
    """Make rates of API calls, by client."""
    return hk.rate("public-api", Allowance(60, per="minute"), Allowance(5_000, per="day"))


def fill(hk: Kernel) -> None:
    """Add something of everything, once: a kept database is not filled again."""
    try:
        hk.pool(LINE)
    except PoolNotFound:
        _fill(hk)


def _fill(hk: Kernel) -> None:
    for id, total in TREE.items():
        hk.create_pool(id, total)
    hk.create_pool("summer-school/2025", 40)
    hk.admin.archive_pool("summer-school/2025", reason="the year is over")
    hk.consume("arena//north//lower", 96, entity="season tickets")
    hk.consume("arena//floor", 140, entity="presale")
    _fill_line(hk)
    _fill_faces(hk)
    _run_sagas(hk)


def _fill_line(hk: Kernel) -> None:
    hk.create_pool(LINE, 6, per_account=2)
    for number in range(3):
        hk.consume(LINE, 2, account=f"patient:{number + 1}", entity=f"appointment:{number + 1}")
    for number in range(4, 9):
        hk.join(LINE, 1, ttl="6h", offer_ttl="2m", account=f"patient:{number}", entity=f"appointment:{number}")


def _fill_faces(hk: Kernel) -> None:
    begin = today(hk)
    inn = hk.calendar("seaside-inn", ROOMS)
    for night, (room, quantity, nights) in enumerate(_bookings()):
        arrival = begin + timedelta(days=night % 12)
        with suppress(Refused):
            inn.consume({room: quantity}, arrival, arrival + timedelta(days=nights), entity=f"booking:{100 + night}")
    spaces = hk.resource(GarageResource())
    for day in range(1, 4):
        for floor in FLOORS:
            spaces.hold(floor, begin + timedelta(days=day), 2 + day, ttl="8h", entity="company day")
    hk.seats.add(seat for section in SECTIONS for seat in _seats(section))
    for number in range(9):
        hk.confirm(hk.seats.hold(2 + number % 4, section="hall/stalls", ttl="5m"), entity=f"order:{number}")
    for client in ("mobile-app", "partner:acme"):
        rates(hk).consume(client, 12)
    for team in TEAMS:
        budgets(hk).consume(team, {"tokens": 120_000 * (1 + TEAMS.index(team)), "calls": 40})


def _bookings() -> Iterator[tuple[str, int, int]]:
    """Yield rooms, how many, and for how many nights."""
    for number in range(24):
        yield ("double", "single", "family", "double", "suite")[number % 5], 1 + number % 3 // 2, 1 + number % 4


def _seats(section: str) -> Iterator[Seat]:
    """Yield rows with an aisle in the middle, and places for wheelchairs at the end of the first one."""
    rows, width = SECTIONS[section]
    for row in rows:
        for number in range(1, width + 1):
            position = number + (2 if number > width // 2 else 0)
            kind = "wheelchair" if row == rows[0] and number > width - 2 else ""
            yield Seat(f"{section}/{row}{number:02}", section, row, number, position=position, kind=kind)


def _run_sagas(hk: Kernel) -> None:
    sagas = hk.sagas.register(DeliverySaga)
    for number, town in enumerate(("Berlin", "Porto", "Lyon", "Ghent")):
        with suppress(HoldkitError):  # the one to Lyon is parked
            sagas.run(f"delivery-{number + 1}", {"to": town})


def add_keys(keys: Keys) -> None:
    """Make sample API keys, once, and throw their secrets away."""
    if any(key.name == "box office" for key in keys.listed()):
        return
    keys.make("box office", scope="hold")
    keys.make("monitoring", scope="read")
    keys.revoke(keys.make("old till", scope="hold").info.id, reason="the till was replaced")
