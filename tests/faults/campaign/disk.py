"""A disk whose power can be cut: ext4 on a loop device, shut down by ioctl (`EXT4_IOC_SHUTDOWN`, without flushing its log).

What was written and not synced is gone, as it is when a machine loses its power: the page cache is lost, and ext4 recovers
from its own journal at the next mount. What this does not do: it drops no write that had reached the device but not its
medium, and it tears no sector. Needs root, mkfs.ext4 and loop devices.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, Self

from holdkit.testing.postgres.server import wait_for
from holdkit.testing.postgres.shared import memory
from tests.faults.campaign.ledger import now

SHUTDOWN: Final = 0x8004587D
"""_IOR('X', 125, __u32)"""
WITHOUT_FLUSH: Final = struct.pack("I", 2)
BALLAST: Final = "ballast"


@cache
def missing() -> str:
    """Why power cannot be cut here; empty if it can, which is tried."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(program) is None:
            return f"needs {program}"
    try:
        with Disk(8) as disk:
            disk.cut()
    except OSError as error:
        return f"needs loop devices with ext4 ({error})"
    return ""


class Disk:
    """One file system, mounted until closed."""

    def __init__(self, megabytes: int = 512) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdkit-disk-", dir=memory()))
        self._folder.chmod(0o711)  # a server that runs as nobody must get through
        self._image, self.path = self._folder / "image", self._folder / "disk"
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(megabytes * 2**20)
        try:
            run(
                "mkfs.ext4", "-q", "-F", "-m", "0", str(self._image)
            )  # -m 0: nothing is kept for root, or no disk is full
            self._mount()
        except OSError:
            shutil.rmtree(self._folder)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._unmount()
        shutil.rmtree(self._folder)

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))

    def _unmount(self) -> None:
        """Whoever had files open was killed, and may take a moment to go."""
        wait_for(lambda: subprocess.run(["umount", str(self.path)], capture_output=True, check=False).returncode == 0,
                 f"{self.path} cannot be unmounted")  # fmt: skip

    def sync(self) -> None:
        """Everything so far is kept, whatever happens."""
        run("sync", "-f", str(self.path))

    def cut(self) -> float:
        """Cut the power; the moment before. Whatever was acknowledged later does not count."""
        top = os.open(self.path, os.O_RDONLY)
        try:
            began = now()
            fcntl.ioctl(top, SHUTDOWN, WITHOUT_FLUSH)
        finally:
            os.close(top)
        return began

    def restore(self) -> None:
        """Power is back: everybody who used it must be gone."""
        self._unmount()
        self._mount()

    def fill(self) -> None:
        """Leave no room."""
        with (self.path / BALLAST).open("ab", buffering=0) as ballast:
            for size in (2**20, 2**12):
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError:
                    continue

    def empty(self) -> None:
        """Give the room back."""
        (self.path / BALLAST).unlink()


def run(*command: str) -> None:
    """Run a command; raises OSError with its error output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
