"""mutmut, with two things mended and one added.

When a mutant's time is over, only a process that is still its own is signalled. mutmut remembers by their numbers the processes
it started, and forgets none that has ended: minutes later it signals whoever has that number then. On a machine that
starts many processes that is somebody else.

A mutant meets one case of every test first, and the other cases only if it survives these. Most are killed by the first few
tests, and before those run, pytest takes seconds to find the thousands of cases that reach a function of the codec.

HOLDKIT_MUTANTS=2/3 tries only the second third of the mutants. Which third one is in depends on its name alone, so that all
kinds of rules are in each.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import mutmut.__main__
from mutmut.runners.harness import PytestRunner
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


def in_two_parts(tests: Iterable[str]) -> list[list[str]]:
    """One case of each test, in the order given, and then all others; a part without tests is left out."""
    first: dict[str, str] = {}
    others = [case for case in tests if first.setdefault(case.partition("[")[0], case) != case]
    return [part for part in ([*first.values()], others) if part]


class PartsRunner(PytestRunner):
    """Runs the parts one after the other and stops at the first that fails."""

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        for part in in_two_parts(tests) or [[]]:
            if code := super().run_tests(mutant_name=mutant_name, tests=part):
                return code
        return 0


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
    vars(isolation)["PytestRunner"] = PartsRunner
    vars(timeout)["os"] = SimpleNamespace(kill=kill_own, getpid=os.getpid)
    sys.exit(mutmut.__main__.cli())
