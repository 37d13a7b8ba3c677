"""The doctor: checks whether what a URL names can be relied on. Each finding says what to do. Changes none of your data."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

from ..core.model import SECOND, Slot
from ..core.reading import ListTenants, ReadGeneration, Survey, TakeSurvey
from ..engines.clocks import wall_clock
from ..engines.doctor import MIN_FREE, Finding, Space, examine_space, space_of
from ..engines.port import Engine
from ..errors import HoldkitError
from .opening import is_postgres, open_engine

SKEW = 5 * SECOND
"""A larger difference between clocks is a warning."""
LAG = 60 * SECOND
"""If a hold is due for longer than this, nothing sweeps."""


def examine(url: str, min_free: int = MIN_FREE) -> Iterator[Finding]:
    """Check versions, settings and files, then the state itself. `min_free` is the server's setting `journal.min_free`."""
    yield Finding("versions", "ok", f"holdkit {_version()}, Python {platform.python_version()}, {platform.system()}")
    try:
        for finding in _examine_engine(url, min_free):
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
        yield from _examine_disk(engine, min_free, looked_at=not is_postgres(url))
    finally:
        engine.close()


def _examine_engine(url: str, min_free: int) -> Iterator[Finding]:
    scheme, _, rest = url.partition(":///")
    if is_postgres(url):
        from ..engines.postgres.doctor import examine as examine_postgres

        yield from examine_postgres(url)
    elif scheme == "sqlite":
        from ..engines.sqlite.inspection import examine as examine_sqlite

        yield from examine_sqlite(unquote(rest), min_free)


def _examine_disk(engine: Engine, min_free: int, *, looked_at: bool) -> Iterator[Finding]:
    """Report the disk, unless it was looked at before the engine was opened; and the quota that keeps one tenant from filling it."""
    on_disk = engine.capabilities.on_disk
    if on_disk is None:
        return
    path = on_disk.data_path()
    space = None if path is None else space_of(path)
    tenants = 1 + _count_tenants(engine)
    if space is None:
        yield Finding("disk space", "ok", "not known: the data is on another machine, or its directory is not shown to this role",
                      "watch that disk there: journal.min_free cannot protect it")  # fmt: skip
        yield Finding("storage quota", "ok", f"{tenants} tenants share a disk that is not known here",
                      "choose as tenants.quota_bytes three quarters of the room for this database, divided by the tenants")  # fmt: skip
        return
    if not looked_at:
        yield examine_space(space, min_free)
    quota = advised_quota(space, on_disk.data_size(), min_free, tenants)
    yield Finding("storage quota", "ok", f"{tenants} tenants share the disk, the default tenant among them",
                  f"so that none can fill it, choose tenants.quota_bytes={quota}" if quota else "")  # fmt: skip


def _count_tenants(engine: Engine) -> int:
    count, after = 0, ""
    while page := engine.read(ListTenants(after, 1_000)):
        count, after = count + len(page), page[-1]
    return count


def advised_quota(space: Space, stored: int, min_free: int, tenants: int) -> int:
    """Return the bytes that each tenant may store so that all of them together leave `min_free` on the disk, with two digits; 0 if
    there is no room. A quota counts text: with its indexes a database takes up to a third more."""
    quota = int((space.free + stored - min_free) * 0.75 / tenants)
    if quota < 1:
        return 0
    unit: int = 10 ** max(0, len(str(quota)) - 2)
    return quota // unit * unit


def weigh(survey: Survey, here: Slot) -> Iterator[Finding]:
    """Yield findings from the counts and the clocks."""
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
