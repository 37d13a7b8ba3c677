"""The doctor: checks whether what a URL names can be relied on. Each finding says what to do. Changes none of your data."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

from ..core.model import SECOND, Slot
from ..core.reading import ReadGeneration, Survey, TakeSurvey
from ..engines.clocks import wall_clock
from ..engines.doctor import Finding
from ..errors import HoldkitError
from .opening import is_postgres, open_engine

SKEW = 5 * SECOND
"""A larger difference between clocks is a warning."""
LAG = 60 * SECOND
"""If a hold is due for longer than this, nothing sweeps."""


def examine(url: str) -> Iterator[Finding]:
    """Check versions, settings and files, then the state itself."""
    yield Finding("versions", "ok", f"holdkit {_version()}, Python {platform.python_version()}, {platform.system()}")
    try:
        for finding in _examine_engine(url):
            yield finding
            if finding.name == "schema" and finding.level == "warn":
                yield Finding("opening", "warn", "not opened: that would change the schema", "")
                return
        engine = open_engine(url)
    except HoldkitError as error:
        yield Finding("opening", "fail", str(error), "see the findings above; another process may have it open")
        return
    try:
        yield Finding("opening", "ok", engine.url)
        found = engine.durability
        yield Finding("durability", "ok" if found.safe else "warn", f"{found.level}: {found.says}", found.advice)
        before = wall_clock()
        yield Finding("generation", "ok", f"{engine.read(ReadGeneration())} of the journal")
        survey = engine.read(TakeSurvey())
        yield from weigh(survey, (before + wall_clock()) // 2)
    finally:
        engine.close()


def _examine_engine(url: str) -> Iterator[Finding]:
    scheme, _, rest = url.partition(":///")
    if is_postgres(url):
        from ..engines.postgres.doctor import examine as examine_postgres

        yield from examine_postgres(url)
    elif scheme == "sqlite":
        from ..engines.sqlite.inspection import examine as examine_sqlite

        yield from examine_sqlite(unquote(rest))


def weigh(survey: Survey, here: Slot) -> Iterator[Finding]:
    """Findings from the counts and the clocks."""
    difference = abs(survey.now - here)
    skewed = difference > SKEW
    yield Finding("clock", "warn" if skewed else "ok", f"the engine's and this machine's differ by {difference / SECOND:.1f} s",
                  "the engine's decides; synchronise the machines, and pass ttl rather than deadlines" if skewed else "")  # fmt: skip
    behind = 0 if survey.latest is None else max(0, survey.latest - survey.now)
    yield Finding("time", "warn" if behind > SKEW else "ok",
                  f"the engine's clock is {behind / SECOND:.1f} s behind the last decision" if behind else "moves forward",
                  "somebody set it back: until it is there again, deadlines on the pools touched last come later than they say"
                  if behind > SKEW else "")  # fmt: skip
    lag = 0 if survey.oldest_due is None else survey.now - survey.oldest_due
    late = lag > LAG
    yield Finding("sweep", "warn" if late else "ok",
                  f"the oldest due hold waits since {lag / SECOND:.0f} s" if survey.oldest_due is not None else "nothing is due",
                  "answers are right without it, but run `holdkit sweep` from cron, or hk.sweeper()" if late else "")  # fmt: skip
    yield Finding("pools", "ok", str(survey.pools))
    yield Finding("live holds", "ok", str(survey.live_holds))
    yield Finding("journal", "ok", f"{survey.entries} entries")


def _version() -> str:
    try:
        return version("holdkit")
    except PackageNotFoundError:
        return "(not installed)"
