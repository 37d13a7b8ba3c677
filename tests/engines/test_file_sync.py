"""Where fsync stops at the drive's cache, as on macOS, files are synced to the platter: by fcntl's F_FULLFSYNC."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdkit.engines import durability

FULL = 51
"""Its number on macOS."""


class Macintosh:
    """Notes what is asked of the operating system; `refuse` is the errno of every full sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refuse: int = 0) -> None:
        self.asked: list[str] = []
        self._refuse = refuse
        monkeypatch.setattr(durability, "FULL", FULL)
        monkeypatch.setattr(durability, "control", self.control)
        monkeypatch.setattr(os, "fsync", lambda _: self.asked.append("fsync"))

    def control(self, descriptor: int, command: int) -> int:
        assert command == FULL
        os.fstat(descriptor)  # it is open
        self.asked.append("full")
        if self._refuse:
            raise OSError(self._refuse, os.strerror(self._refuse))
        return 0


def test_a_full_sync_where_there_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    macintosh = Macintosh(monkeypatch)
    with (tmp_path / "f").open("wb") as file:
        durability.sync_file(file.fileno())
    assert macintosh.asked == ["full"]


@pytest.mark.parametrize("refusal", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_it_is_synced_as_well_as_it_can_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: int
) -> None:
    macintosh = Macintosh(monkeypatch, refusal)
    with (tmp_path / "f").open("wb") as file:
        durability.sync_file(file.fileno())
    assert macintosh.asked == ["full", "fsync"]


def test_an_error_of_the_disk_is_not_covered_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    macintosh = Macintosh(monkeypatch, errno.EIO)
    with (tmp_path / "f").open("wb") as file, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        durability.sync_file(file.fileno())
    assert macintosh.asked == ["full"]


def test_elsewhere_it_is_fsync(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    macintosh = Macintosh(monkeypatch)
    monkeypatch.setattr(durability, "FULL", None)
    with (tmp_path / "f").open("wb") as file:
        durability.sync_file(file.fileno())
    assert macintosh.asked == ["fsync"]
