"""mutmut, with two faults mended and one option added.

When a mutant's time is over, only a process that is still its own is signalled. mutmut remembers by their numbers the processes
it started, and forgets none that has ended: minutes later it signals whatever process has that number then.

The tests are collected once, and every mutant is a fork of the process that has them. mutmut has each mutant collect its tests
again, which takes ten times as long as the tests that kill most mutants. A mutant meets one case of every test first, and the
other cases only if it survives these.

HOLDKIT_MUTANTS=2/3 tries only the second third of the mutants. The name of a mutant alone decides which third it is in, so that
all kinds of rules are in each.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import mutmut.__main__
import pytest
from _pytest.config import _prepareconfig
from mutmut.runners.harness import PytestRunner
from mutmut.utils.file_utils import change_cwd
from mutmut.workers import isolation, timeout

PART = "HOLDKIT_MUTANTS"


def belongs(name: str, part: str) -> bool:
    """Whether a mutant is in this part of all, written as in `2/3`."""
    number, _, parts = part.partition("/")
    return zlib.crc32(name.encode()) % int(parts) == int(number) - 1


def kill_own(pid: int, sig: int) -> None:
    """As `os.kill`, for a child that has not been waited for yet; any other is as good as gone."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        raise ProcessLookupError(pid) from None
    os.kill(pid, sig)


def one_case_first(tests: Iterable[str]) -> list[str]:
    """Return one case of each test, in the order given, and then all other cases."""
    first: dict[str, str] = {}
    others = [case for case in tests if first.setdefault(case.partition("[")[0], case) != case]
    return [*first.values(), *others]


class CollectedTests(PytestRunner):
    """Runs a mutant's tests from a session that its parent process has collected."""

    def __init__(self) -> None:
        super().__init__()
        self._session: pytest.Session | None = None
        self._items: dict[str, pytest.Item] = {}

    def collect(self) -> None:
        """Collect every test once, before the first fork."""
        arguments = ["--rootdir=.", "-p", "no:terminal", "--capture=no", *self._pytest_add_cli_args_test_selection]
        with change_cwd("mutants"):
            config = _prepareconfig(arguments)
            config._do_configure()  # noqa: SLF001 - what `pytest.main` does before it collects; it cannot stop there
            self._session = pytest.Session.from_config(config)
            config.hook.pytest_sessionstart(session=self._session)
            config.hook.pytest_collection(session=self._session)
        self._items = {item.nodeid: item for item in self._session.items}

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        """Return 0 if the mutant survives its tests, 1 as soon as one fails."""
        session = self._session
        if mutant_name is None or session is None:  # the clean run, and the one that must fail
            return super().run_tests(mutant_name=mutant_name, tests=tests)
        items = [self._items[name] for name in one_case_first(tests)]
        with change_cwd("mutants"):
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
        return 0


class Forks(isolation.ForkRunner):
    """Forks each mutant from the process that has collected the tests."""

    def startup(self) -> None:
        """Collect the tests."""
        assert isinstance(self.test_runner, CollectedTests)
        self.test_runner.collect()
        super().startup()


def only(part: str) -> None:
    """Let mutmut know of no mutant outside of this part."""
    collect = mutmut.__main__.collect_source_file_mutation_data

    def collect_part(**named: Any) -> Any:
        mutants, files = collect(**named)
        return [found for found in mutants if belongs(found[1], part)], files

    vars(mutmut.__main__)["collect_source_file_mutation_data"] = collect_part


if __name__ == "__main__":
    if asked := os.environ.get(PART):
        only(asked)
    vars(isolation).update(PytestRunner=CollectedTests, ForkRunner=Forks)
    vars(timeout)["os"] = SimpleNamespace(kill=kill_own, getpid=os.getpid)
    sys.exit(mutmut.__main__.cli())
