"""What the plugin gives to users' tests: tried as they would, in a folder with a conftest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.testing_kit.test_postgres_plugin import pytest_in

CONFTEST = 'pytest_plugins = ["holdkit.testing.plugin"]\n'

KERNELS = """
import holdkit, pytest

@pytest.fixture(params=["holdkit_kernel", "holdkit_postgres"])
def hk(request):
    return request.getfixturevalue(request.param)

def test_kernel_and_clock_go_together(hk, holdkit_clock):
    hk.create_pool("gpu", total=1)
    hold = hk.hold("gpu", 1, ttl=60)
    holdkit_clock.advance(60)
    assert hk.pool("gpu").available == 1
    with pytest.raises(holdkit.HoldExpired):
        hk.confirm(hold)

@pytest.mark.parametrize("turn", [1, 2])
def test_databases_are_empty(turn, holdkit_postgres):
    holdkit_postgres.create_pool("gpu", total=1)

def test_a_url_for_what_connects_by_itself(holdkit_postgres_url):
    import asyncio
    async def use():
        async with await holdkit.connect_async(holdkit_postgres_url) as hk:
            return await hk.create_pool("gpu", total=1)
    assert asyncio.run(use()).available == 1

def test_an_application_may_close_its_kernel(hk):
    hk.create_pool("gpu", total=1)
    hk.close()

def test_a_story(holdkit_story):
    told = holdkit_story("pool gpu total=1\\nhold a gpu 1 ttl=60 -> held\\nhold b gpu 1 ttl=60 -> insufficient_capacity available=0")
    assert told.checked == 3
    with pytest.raises(AssertionError, match="story:2"):
        holdkit_story("pool gpu total=1\\nhold a gpu 1 ttl=60 -> insufficient_capacity")
"""


def run(place: Path, *arguments: str) -> str:
    process = pytest_in(place, KERNELS, *arguments, conftest=CONFTEST)
    return process.communicate()[0]


def test_fixtures(postgres_binaries: Path, tmp_path: Path) -> None:
    said = run(tmp_path)
    assert "8 passed" in said, said
    assert "error" not in said, said


def test_a_kernel_that_was_tampered_with_fails_its_test(tmp_path: Path) -> None:
    process = pytest_in(
        tmp_path,
        "def test_it(holdkit_kernel):\n"
        "    holdkit_kernel.create_pool('gpu', total=1)\n"
        "    holdkit_kernel._executor.engine._tables.pools.clear()\n",
        conftest=CONFTEST,
    )
    said = process.communicate()[0]
    assert "1 error" in said, said
    assert "gpu" in said


@pytest.mark.parametrize(
    ("story", "says"),
    [
        ("pool gpu total=1\nhold a gpu 1 ttl=60 -> held\n", "1 passed"),
        ("pool gpu total=1\nhold a gpu 2 ttl=60 -> held\n", "promise.story:2"),
        ("pool gpu total=1\nhould a gpu 2 ttl=60 -> held\n", "promise.story:2"),
    ],
)
def test_files_with_stories_are_tests(tmp_path: Path, story: str, says: str) -> None:
    (tmp_path / "promise.story").write_text(story)
    process = pytest_in(tmp_path, "", "promise.story", conftest=CONFTEST)
    said = process.communicate()[0]
    assert says in said, said
    assert process.returncode == (0 if says == "1 passed" else 1)
    assert "Traceback" not in said
