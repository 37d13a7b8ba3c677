"""Claims and items with `tx=` in every framework that is named: refused and gone on, rolled back, committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdkit
from tests.support.frameworks import ON_POSTGRES, ON_SQLITE, Application, make_tables

WHERE = [("postgres", kind) for kind in ON_POSTGRES] + [("sqlite", kind) for kind in ON_SQLITE]


@pytest.fixture(params=WHERE, ids=lambda where: f"{where[1].__name__}-{where[0]}")
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    where, kind = request.param
    url = request.getfixturevalue("migrated")(lanes=4) if where == "postgres" else f"sqlite:///{tmp_path}/shop.db"
    make_tables(url)
    application: Application = kind(url)
    application.hk.seats.add([holdkit.Seat(f"seat:{number}", "stalls", "A", number) for number in (1, 2)])
    yield application
    application.close()


def sign_up(app: Application) -> str:
    """An order, a key and an item in the application's own transaction; refusals on the way leave it usable."""
    hk, claims, tx = app.hk, app.hk.claims, app.tx
    app.begin()
    claim = claims.hold("email", "a@b.c", ttl=300, token="me", op="sign-up", tx=tx)
    with pytest.raises(holdkit.AlreadyClaimed):
        claims.hold("email", "a@b.c", ttl=300, token="you", tx=tx)
    app.order("a")
    again = claims.hold("email", "a@b.c", ttl=300, token="me", op="sign-up", tx=tx)
    assert (again.id, again.replayed) == (claim.id, True)
    hold = hk.seats.hold(1, section="stalls", ttl=None, op="seat", tx=tx)
    with pytest.raises(holdkit.ItemsTaken):
        hk.items.hold(["seat:1"], ttl=None, tx=tx)
    hk.confirm(hold, tx=tx)
    assert hk.confirm(claim, entity="user:1", tx=tx).state == "confirmed"
    assert not claims.is_taken("email", "a@b.c"), "nobody else sees it yet"
    return str(claim.id)


def test_rolled_back_and_committed(app: Application) -> None:
    sign_up(app)
    app.roll_back()
    assert app.hk.claims.list(entity="user:1") == []
    assert [item.state for item in app.hk.items.get(["seat:1"])] == ["available"]
    claim = sign_up(app)
    app.commit()
    assert app.orders() == ["a"]
    assert app.hk.claims.list(entity="user:1")[0].hold == claim
    assert [item.state for item in app.hk.items.get(["seat:1", "seat:2"])] == ["confirmed", "available"]
    assert app.hk.admin.verify().ok
