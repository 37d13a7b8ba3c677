"""The checks as one suite: a class for pytest, a function for everyone else. Imports no test framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ...core.bounds import Limits
from ...engines.clocks import Clock
from ...engines.port import Engine
from . import (
    batches,
    bounds,
    capabilities,
    concurrency,
    counting,
    deadlines,
    durability,
    finding,
    journal,
    lines,
    pages,
    pool_ends,
    reads,
    retries,
)
from .harness import Harness, Make, NotConforming, Reopen

Check: TypeAlias = Callable[[Harness], None]
"""Uses an engine, and raises `NotConforming` if it does not behave; the first line of its docstring says what is
expected."""

CHECKS: Final[tuple[Check, ...]] = (*batches.CHECKS, *deadlines.CHECKS, *retries.CHECKS, *journal.CHECKS,
                                    *bounds.CHECKS, *reads.CHECKS, *pages.CHECKS, *finding.CHECKS, *counting.CHECKS, *pool_ends.CHECKS, *lines.CHECKS, *concurrency.CHECKS, *capabilities.CHECKS)  # fmt: skip
"""What every engine must pass."""

DURABLE: Final[tuple[Check, ...]] = durability.CHECKS
"""What an engine must pass that promises to outlive its process."""


class Failure(Struct, frozen=True):
    """One check that an engine did not pass."""

    check: str
    promise: str
    found: str

    def __str__(self) -> str:
        return f"{self.check}: {self.found}\n    promised: {self.promise}"


def run_check(check: Check, make: Make, reopen: Reopen | None = None) -> None:
    """Run one check on a new engine; `NotConforming` if the engine fails it, by an answer or by an error."""
    harness = Harness(make, reopen)
    try:
        check(harness)
    except NotConforming:
        raise
    except Exception as error:
        raise NotConforming(f"the engine raised {type(error).__name__}: {error}") from error
    finally:
        harness.close()


def check_engine(make: Make, reopen: Reopen | None = None, *, only: Sequence[str] = ()) -> list[Failure]:
    """Run every check, those of durability too if `reopen` is given. An empty list means that the engine conforms.

    `make(clock, limits)` opens a new, empty engine each time; `reopen(engine)` opens again what that one has stored.
    With `only`, run the checks of these names.
    """
    failures = []
    for check in (*CHECKS, *(DURABLE if reopen is not None else ())):
        if only and check.__name__ not in only:
            continue
        try:
            run_check(check, make, reopen)
        except NotConforming as broken:
            failures.append(Failure(check.__name__, promise(check), str(broken)))
    return failures


def promise(check: Check) -> str:
    """Return what a check expects, in one line."""
    return (check.__doc__ or "").strip().splitlines()[0]


class EngineConformance:
    """Subclass it in a test module and say how an engine is opened: pytest finds one test per check."""

    def make_engine(self, clock: Clock, limits: Limits) -> Engine:
        """Open a new, empty engine; called by every check."""
        raise NotImplementedError


class DurableEngineConformance(EngineConformance):
    """Subclass it for an engine that outlives its process: it adds the checks of durability to those of `EngineConformance`."""

    def reopen(self, engine: Engine) -> Engine:
        """Open again what this engine has stored. It is closed, or abandoned as after a crash."""
        raise NotImplementedError


def _as_test(check: Check) -> Callable[[Any], None]:
    def test(self: EngineConformance) -> None:
        run_check(check, self.make_engine, self.reopen if isinstance(self, DurableEngineConformance) else None)

    test.__name__ = f"test_{check.__name__}"
    test.__doc__ = check.__doc__
    return test


for _check in CHECKS:
    setattr(EngineConformance, f"test_{_check.__name__}", _as_test(_check))
for _check in DURABLE:
    setattr(DurableEngineConformance, f"test_{_check.__name__}", _as_test(_check))
