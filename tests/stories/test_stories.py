"""Every story on every engine in sync and async; and the runner itself, which must not let anything slip by."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.postgres.migrating import Layout
from holdkit.kernel.limits import asked_slots
from holdkit.reports import Reason
from holdkit.testing import FakeClock
from holdkit.testing.stories import (
    Story,
    StoryFailed,
    StoryResult,
    StorySyntax,
    read_stories,
    read_story,
    run_story,
    run_story_async,
)
from holdkit.testing.stories.parser import VERBS
from tests.stories.kept_kernels import KeptKernels, can_share
from tests.support.databases import Databases

FOLDER = Path(__file__).parent
STORIES = read_stories(FOLDER)
ENGINES = {"memory": False, "sqlite": True, "postgres": True, "lanes": True, "distributed": True}
"""Each engine, and whether it is durable; `lanes` is PostgreSQL with several, `apart` the same said as where the tables
are distributed by lane. Both are told every other story sync, and the rest async."""
MODES = ("sync", "async")
LANES = {"postgres": 1, "lanes": 8, "distributed": 8}
SEVERAL = ("lanes", "distributed")
ONE_LANE = frozenset({
    "02-tenants-share-nothing",
    "04-a-batch-stands-without-its-refused",
    "04-an-atomic-batch-is-all-or-none",
    "04-create-pool",
    "06-every-change-has-its-entry",
    "07-sweep-expires-what-is-due",
    "08-fences-outlive-their-pool",
    "14-line-units-are-handed-over-in-order",
})  # fmt: skip
"""Told of one lane only: they speak of the order of several pools' entries in one instant, of one floor for all fences, or of the effects
of a hold whose id is in another lane than its pool."""
SECTIONS = ("02", "03", "04", "05", "06", "07", "08", "09", "11", "12", "13", "14", "15")
CASES = [
    pytest.param(story, engine, mode, id=f"{story.name}-{engine}-{mode}")
    for index, story in enumerate(STORIES)
    for engine in ENGINES
    for mode in MODES
    if engine not in SEVERAL or (story.name not in ONE_LANE and mode == MODES[index % 2])
]


def tell(story: Story, engine: str, mode: str, folder: Path, database: str = "") -> StoryResult:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/holds.db"}
    url = urls.get(engine, database)

    def opened(clock: FakeClock, limits: holdkit.Limits | None) -> holdkit.Kernel:
        return holdkit.connect(url, clock=clock, limits=limits)

    def opened_async(clock: FakeClock, limits: holdkit.Limits | None) -> Awaitable[holdkit.AsyncKernel]:
        return holdkit.connect_async(url, clock=clock, limits=limits)

    if mode == "sync":
        return run_story(story, opened, durable=ENGINES[engine])
    return asyncio.run(run_story_async(story, opened_async, durable=ENGINES[engine]))


@pytest.fixture(scope="session")
def kept_kernels(postgres_kept: Databases) -> Iterator[KeptKernels]:
    kept = KeptKernels(postgres_kept)
    yield kept
    kept.close()


@pytest.mark.parametrize(("story", "engine", "mode"), CASES)
def test_story(story: Story, engine: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    layout: Layout = "as if" if engine == "distributed" else "one server"
    if engine not in LANES:
        told = tell(story, engine, mode, tmp_path)
    elif can_share(story):
        told = request.getfixturevalue("kept_kernels").tell(story, layout, LANES[engine], mode)
    else:
        database = request.getfixturevalue("migrated")(layout, LANES[engine], asked_slots(story.limits))
        told = tell(story, engine, mode, tmp_path, database)
    assert told.checked == story.checked > 0, "a line with an expectation was passed over"
    restarts = sum(line.verb == "restart" for line in story.statements)
    assert told.restarts == (restarts if ENGINES[engine] else 0)


def test_no_story_engine_or_mode_is_left_out() -> None:
    on_disk = sum(path.suffix == ".story" for path in FOLDER.iterdir())
    assert len(STORIES) == on_disk >= 50
    plain, several = on_disk * (len(ENGINES) - len(SEVERAL)), (on_disk - len(ONE_LANE)) * len(SEVERAL)
    assert len({case.id for case in CASES}) == len(CASES) == plain * len(MODES) + several
    told = {(case.values[1], case.values[2]) for case in CASES}
    assert told == {(engine, mode) for engine in ENGINES for mode in MODES}
    assert {story.name for story in STORIES} >= ONE_LANE


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_has_its_stories(section: str) -> None:
    assert sum(story.name.startswith(f"{section}-") for story in STORIES) >= 2


def test_every_story_belongs_to_a_section_and_opens_with_its_promise() -> None:
    paths = sorted(FOLDER.glob("*.story"))
    assert len(paths) == len(STORIES) > 50
    for path in paths:
        assert path.name[:2] in SECTIONS
        assert re.match(r"# \S.{20,}[.]\n", path.read_text("utf-8")), f"{path.name} does not say what it promises"


def test_every_reason_is_told() -> None:
    wants = [
        line.expected
        for story in STORIES
        for line in (*story.statements, *(i for at in story.statements for i in at.inside))
    ]
    assert set(Reason) <= {want.word for want in wants if want is not None}


def test_every_verb_is_used_and_documented() -> None:
    used = {line.verb for story in STORIES for at in story.statements for line in (at, *at.inside)}
    assert used == set(VERBS) - {"limits", "end"}  # those two are read away
    text = holdkit.testing.stories.__doc__ or ""
    assert [verb for verb in VERBS if verb.split()[-1] not in text] == []


# The runner is strict

SYNTAX = {
    "hold a gpu 1 ttl=60": "must say what it expects",
    "hold a gpu 1 ttl=60 ->": "expects nothing",
    "hold a gpu 1 ttl=60 -> granted": "'granted' is no answer",
    "hold a gpu 1 ttl=60 -> held units=1": "has no 'units'",
    "hold a gpu 1 ttl=60 -> held gpu.total=1": "has no 'gpu.total'",
    "hold a gpu 1 ttl=60 -> held fence=one": "not a whole number",
    "hold a gpu 1 ttl=60 -> held held": "several answers",
    "hold a gpu 1 ttl=60 -> held fence=1 fence=1": "expected twice",
    "hold a gpu 1 ttl=60 -> hold_expired fence=1": "has no 'fence'",
    "hold a gpu 1 tll=60 -> held": "takes no 'tll'",
    "hold a gpu 1 ttl=60 ttl=60 -> held": "takes no 'ttl', or not twice",
    "hold a gpu cpu ttl=60 -> held": "is not pool:quantity",
    "hold a -> held": "names no pool",
    "hold -> held": "names no hold",
    "hold a 'gpu 1 -> held": "a quote is not closed",
    "book a gpu 1 -> held": "the verb 'book' is not known",
    "join a gpu 1 ttl=60 offer=5 -> waiting": "takes no 'offer'",
    "place a": "must say what it expects",
    "expect flock gpu -> held=1": "the verb 'expect flock' is not known",
    "expect pool gpu": "must say what it expects",
    "expect pool gpu -> done": "is no answer",
    "clock soon": "not a number of seconds",
    "clock 0.0000001": "not a whole number of microseconds",
    "clock 5 -> done": "has no answer to expect",
    "verify -> fine": "is no answer",
    "journal -> pool.made": "is none of",
    "batch\npool gpu total=1": "has no end",
    "batch\nclock 5\nend": "is not a command",
    "end": "ends no batch",
    "batch\nhold a gpu 1 ttl=60\nend": "must say what it expects",
    "batch\nhold a gpu 0 ttl=60 -> held\nend -> invalid": "no answers inside",
    "pool gpu total=1\nlimits max_holds=1": "first line",
    "limits max_hods=1": "takes no 'max_hods'",
    "# nothing at all": "expects nothing",
}


@pytest.mark.parametrize("text", SYNTAX)
def test_what_cannot_be_read_names_file_and_line(text: str) -> None:
    with pytest.raises(StorySyntax, match=re.escape(SYNTAX[text])) as wrong:
        read_story(text, "a.story")
    assert re.match(r"a\.story(:\d+)?: ", str(wrong.value))


FAILURES = {
    "hold b gpu 1 ttl=60 -> insufficient_capacity": "expected insufficient_capacity, got held",
    "hold b gpu 3 ttl=60 -> held": "expected held, got insufficient_capacity",
    "hold b gpu 3 ttl=60 -> insufficient_capacity requested=2": "requested: expected 2, got 3",
    "hold b gpu 3 ttl=60 -> insufficient_capacity short=gpu:3/2": "short: expected",
    "hold b gpu 1 ttl=60 -> held replayed": "expected a replayed answer",
    "hold a gpu 1 ttl=60 op=one -> held": "expected no replayed answer",
    "hold a gpu 1 ttl=60 -> held": "belongs to another hold",
    "confirm b -> confirmed": "no hold was granted under the name 'b'",
    "confirm a 0 -> invalid code=other": "code: expected 'other', got 'quantity_out_of_range'",
    "pool gpu total=1": "expected done, got pool_exists",
    "expect pool gpu -> held=2": "held: expected 2, got 1",
    "expect pool gpu -> over=0": "over: expected 0, got False",
    "expect pool cpu -> held=1": "got pool_not_found",
    "expect hold a -> held cpu.held=1": "cpu.held: expected 1, but the answer has only",
    "place a -> 0": "expected 0, got none",
    "place @7 -> 0": "got HoldNotFound",
    "usage c -> gpu:1/none": "expected gpu:1/none, got nothing",
    "join b gpu 1 ttl=60 offer_ttl=5 -> waiting": "expected waiting, got held",
    "expect pools -> cpu": "expected cpu, got gpu",
    "expect holds -> nothing": "expected nothing, got a",
    "expect record k 1 -> version=1": "there is nothing",
    "history a -> held confirmed": "expected hold.held hold.confirmed, got hold.held",
    "journal -> nothing": "expected nothing, got pool.created hold.held",
    "entry a 2 -> hold.held": "there is no entry 2",
    "entry a 1 -> hold.held actor=user:1": "actor: expected 'user:1', got None",
    "batch\nhold b gpu 3 ttl=60 -> held\nend": "expected held, got insufficient_capacity",
    "batch\nhold b gpu 0 ttl=60 -> held\nend": "expected held, got invalid: holdkit: quantity: must lie between",
    "batch\nhold b gpu 1 ttl=60\nend -> invalid": "expected invalid, got done",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", FAILURES)
def test_a_wrong_expectation_fails_its_line(text: str, mode: str, tmp_path: Path) -> None:
    story = read_story(f"pool gpu total=2\nhold a gpu 1 ttl=60 op=one -> held\n{text}", "a.story")
    with pytest.raises(StoryFailed, match=re.escape(FAILURES[text])) as failed:
        tell(story, "memory", mode, tmp_path)
    assert re.match(r"a\.story:[34]: ", str(failed.value))


def test_rows_changed_behind_the_journal_fail_the_next_line(tmp_path: Path) -> None:
    """`verify` is asked behind every command: a story cannot pass on a state that the journal does not know."""
    story = read_story("pool gpu total=2\nrestart\nhold a gpu 1 ttl=60 -> held", "a.story")
    opened = meddled(lambda rows: rows.execute("update holdkit_pools set consumed = 1"), tmp_path / "holds.db")
    with pytest.raises(StoryFailed, match=r"a\.story:3: verify: "):
        run_story(story, opened, durable=True)


def meddled(
    meddle: Callable[[sqlite3.Connection], object], file: Path
) -> Callable[[FakeClock, holdkit.Limits | None], holdkit.Kernel]:
    """Opens a kernel on the file, and meddles with the file first if it is there already."""

    def opened(clock: FakeClock, limits: holdkit.Limits | None) -> holdkit.Kernel:
        if file.exists():
            with closing(sqlite3.connect(file)) as connection, connection:
                meddle(connection)
        return holdkit.connect(f"sqlite:///{file}", clock=clock, limits=limits)

    return opened
