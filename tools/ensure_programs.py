"""Make sure that the programs some tests need are there, where that can be done without asking.

On Debian and its kin, as root, they are installed; elsewhere nothing happens, and the tests say what they skipped. Touches
no network if all are there already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable

PROGRAMS = {
    "strace": "the tests that make system calls fail",
    "pgbouncer": "the tests behind a pooler",
    "chromium": "the tests of the dashboard",
    "nginx": "the tests behind a proxy",
    "caddy": "the tests behind a proxy",
    "mkfs.ext4": "the tests that cut the power of a file system",
    "mount": "the tests that cut the power of a file system",
    "systemd-analyze": "the tests of the systemd unit",
    "docker-compose": "the tests of compose.production.yaml",
    "cc": "the tests that set the clock of a server",
    "redis-server": "the tests of the bench's peer",
}
"""What they are for."""
PACKAGES = {"cc": "build-essential", "mkfs.ext4": "e2fsprogs", "nginx": "nginx-light", "systemd-analyze": "systemd"}
"""Where that is not called as the program is."""


def missing(wanted: Iterable[str]) -> list[str]:
    """Those that are not there."""
    return [name for name in wanted if shutil.which(name) is None]


def install(wanted: Iterable[str]) -> list[str]:
    """Install what is missing, where that is possible; returns what still is."""
    names = missing(wanted)
    apt = shutil.which("apt-get")
    if not names or apt is None or os.geteuid() != 0:
        return names
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = [apt, "install", "-y", "--no-install-recommends", *(PACKAGES.get(name, name) for name in names)]
    for step in (command, [apt, "update"], command):  # the list of packages may be stale or missing
        if missing(names):
            subprocess.run(step, env=environment, capture_output=True, check=False)
    return missing(names)


def main() -> int:
    """Never fails: whether a skipped test matters is for others to say."""
    before = missing(PROGRAMS)
    after = install(before)
    if not before or shutil.which("apt-get") is None or os.geteuid() != 0:
        return 0
    for name in before:
        if name not in after:
            print(f"installed {name}, for {PROGRAMS[name]}")
        else:
            print(f"could not install {name}: {PROGRAMS[name]} will be skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
