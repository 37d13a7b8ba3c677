"""mutmut, with one thing mended: when a mutant's time is over, only a process that is still its own is signalled.

mutmut remembers by their numbers the processes it started, and forgets none that has ended: minutes later it signals
whoever has that number then. On a machine that starts many processes that is somebody else.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

from mutmut.__main__ import cli
from mutmut.workers import timeout


def kill_own(pid: int, sig: int) -> None:
    """As `os.kill`, for a child that has not been waited for yet; any other is as good as gone."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        raise ProcessLookupError(pid) from None
    os.kill(pid, sig)


if __name__ == "__main__":
    vars(timeout)["os"] = SimpleNamespace(kill=kill_own, getpid=os.getpid)
    sys.exit(cli())
