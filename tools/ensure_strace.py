"""Make sure that strace is there for the tests that make system calls fail, where that can be done without asking.

On Debian and its kin, as root, it is installed; elsewhere nothing happens, and the tests say what they skipped. Touches no
network if strace is there already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def main() -> int:
    """Never fails: whether a skipped test matters is for others to say."""
    apt = shutil.which("apt-get")
    if shutil.which("strace") or apt is None or os.geteuid() != 0:
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [apt, "install", "-y", "--no-install-recommends", "strace"]
    for command in (install, [apt, "update"], install):  # the list of packages may be stale or missing
        subprocess.run(command, env=environment, capture_output=True, check=False)
        if shutil.which("strace"):
            print("installed strace, for the tests that make system calls fail")
            return 0
    print("could not install strace: the tests that make system calls fail will be skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
