"""Make sure that the programs some tests need are there, where that can be done without asking.

On Debian and its kin, as root, they are installed; elsewhere nothing happens, and the tests say what they skipped. Touches
no network if all are there already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PROGRAMS = {
    "strace": "the tests that make system calls fail",
    "pgbouncer": "the tests behind a pooler",
    "chromium": "the tests of the dashboard",
    "nginx": "the tests behind a proxy",
    "caddy": "the tests behind a proxy",
    "mkfs.ext4": "the tests that cut the power of a file system",
    "mount": "the tests that cut the power of a file system",
}
"""What they are for."""
PACKAGES = {"mkfs.ext4": "e2fsprogs", "nginx": "nginx-light"}
"""Where that is not called as the program is."""


def missing() -> list[str]:
    """Those that are not there."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def main() -> int:
    """Never fails: whether a skipped test matters is for others to say."""
    apt, wanted = shutil.which("apt-get"), missing()
    if not wanted or apt is None or os.geteuid() != 0:
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = [apt, "install", "-y", "--no-install-recommends", *(PACKAGES.get(name, name) for name in wanted)]
    for command in (install, [apt, "update"], install):  # the list of packages may be stale or missing
        if missing():
            subprocess.run(command, env=environment, capture_output=True, check=False)
    for name in wanted:
        if shutil.which(name):
            print(f"installed {name}, for {PROGRAMS[name]}")
        else:
            print(f"could not install {name}: {PROGRAMS[name]} will be skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
