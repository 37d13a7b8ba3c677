"""A full table of holds: the oldest holds whose units are consumed are dropped, except those that the batch names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import holdkit
from holdkit import Leg
from holdkit.commands import ConfirmHold, PlaceHold
from holdkit.core.bounds import Limits as CoreLimits

BOUNDS = holdkit.Limits(max_pools=9, max_holds=2, max_operations=9, max_due=1)


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_the_next_one_goes_where_the_batch_names_the_oldest(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with holdkit.connect(place(engine, tmp_path, request), limits=BOUNDS) as hk:
        for pool in ("a", "b"):
            hk.create_pool(pool, 9)
        first, second = (
            hk.consume({"a": 1, "b": 1}) for _ in range(2)
        )  # two legs each: more than one transaction returns
        placed, refused = hk.apply([PlaceHold(legs=(Leg("a"),), ttl="5m"), ConfirmHold(id=first.id, token=first.token)])
        assert isinstance(placed.value, holdkit.Hold)
        assert isinstance(refused.refusal, holdkit.AlreadyConfirmed)
        assert hk.get(first).state == "confirmed"
        with pytest.raises(holdkit.errors.HoldNotFound):
            hk.get(second)
        assert (hk.pool("a").consumed, hk.pool("a").raw.loose) == (2, 1)
        assert hk.admin.verify().ok


def place(engine: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if engine == "postgres":
        migrated: Callable[..., str] = request.getfixturevalue("migrated")
        return migrated(limits=CoreLimits(max_pools=9, max_holds=2, max_operations=9))
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder}/holds.db"}[engine]
