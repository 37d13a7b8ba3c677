"""mutmut, with two things mended.

When a mutant's time is over, only a process that is still its own is signalled. mutmut remembers by their numbers the processes
it started, and forgets none that has ended: minutes later it signals whoever has that number then. On a machine that
starts many processes that is somebody else.

A mutant meets one case of every test first, and the other cases only if it survives these. Most are killed by the first few
tests, and before those run, pytest takes seconds to find the thousands of cases that reach a function of the codec.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import SimpleNamespace

from mutmut.__main__ import cli
from mutmut.runners.harness import PytestRunner
from mutmut.workers import isolation, timeout


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


if __name__ == "__main__":
    vars(isolation)["PytestRunner"] = PartsRunner
    vars(timeout)["os"] = SimpleNamespace(kill=kill_own, getpid=os.getpid)
    sys.exit(cli())
