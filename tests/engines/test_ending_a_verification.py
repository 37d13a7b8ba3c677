"""A verification can be ended at any of its steps, on every engine, and leaves nothing behind: no connection, no open transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdkit
from holdkit.engines import progress


class Enough(Exception):
    pass


def url_of(engine: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if engine == "postgres":
        migrated = request.getfixturevalue("migrated")
        return str(migrated())
    return "memory://" if engine == "memory" else f"{engine}:///{folder / engine}"


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_at_every_step(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "OFTEN", 1)
    with holdkit.connect(url_of(engine, tmp_path, request)) as hk:
        for pool in ("a", "b"):
            hk.create_pool(pool, 9)
        for number in range(3):
            hk.confirm(hk.hold({"a": 1, "b": 1}, ttl="5m", op=f"op-{number}"), quantity={"a": 1}, keep_rest=True)
        hk.admin.records.put("note", "1", "{}")
        left, steps = 0, 0

        def count(_done: int, _total: int) -> None:
            nonlocal left, steps
            steps += 1
            left -= 1
            if left == 0:
                raise Enough

        assert hk.admin.verify(progress=count).ok
        whole, steps = steps, 0
        assert whole >= 8
        for step in range(1, whole + 1):
            left, steps = step, 0
            with pytest.raises(Enough):
                hk.admin.verify(progress=count)
            assert steps == step
        hk.hold("a", ttl="5m")
        assert hk.admin.verify().ok
