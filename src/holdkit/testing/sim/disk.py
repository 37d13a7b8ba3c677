"""A simulated disk under the real log engine, with a page cache that a crash can lose.

What was written and not synced survives a crash sector by sector or not at all, in any order. A failed sync leaves
its data readable and never durable, as real kernels do. Changes of names survive as a prefix of those since the last
sync.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

from .faults import PowerCut

SECTOR = 512


class Pages:
    """The contents of one file: what is durable, what is in the cache, and the writes between the two."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.cached = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []  # writes since the last sync; None: cut to that size

    def write(self, offset: int, data: bytes) -> None:
        """Into the cache."""
        if len(self.cached) < offset:
            self.cached.extend(bytes(offset - len(self.cached)))
        self.cached[offset : offset + len(data)] = data
        self.pending.append((offset, data))

    def cut(self, size: int) -> None:
        """Shorten the file in the cache."""
        del self.cached[size:]
        self.pending.append((size, None))

    def sync(self) -> None:
        """Make pending writes durable."""
        for offset, data in self.pending:
            _put(self.durable, offset, data)
        self.pending.clear()

    def forget(self) -> None:
        """A sync failed: the kernel takes the pages for clean, and no later sync writes them."""
        self.pending.clear()

    def crash(self, random: Random) -> None:
        """Some pending writes become durable, sector by sector."""
        luck = random.choice((0.0, 0.5, 0.9, 1.0))
        for offset, data in self.pending:
            if data is None:
                if random.random() < luck:
                    _put(self.durable, offset, None)
                continue
            for start in range(0, len(data), SECTOR):
                if random.random() < luck:
                    part = data[start : start + SECTOR]
                    if random.random() < 0.02:
                        part = random.randbytes(len(part))
                    _put(self.durable, offset + start, part)
        if random.random() < 0.2 and len(self.durable) < len(self.cached):  # the length survived, the bytes did not
            self.durable.extend(bytes(len(self.cached) - len(self.durable)))
        self.pending.clear()
        self.cached = bytearray(self.durable)


def _put(target: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del target[offset:]
        return
    if len(target) < offset:
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data


class SimDisk:
    """One directory. `before(call)` is called before every operation and may raise a power cut or an OSError."""

    def __init__(self, before: Callable[[str], None] | None = None, capacity: int = 1 << 40) -> None:
        self.name = "simulated"
        self.files: dict[str, Pages] = {}
        self.durable_names: dict[str, Pages] = {}
        self.pending_names: list[dict[str, Pages]] = []  # the directory after each change since the last sync
        self.before = before or (lambda _call: None)
        self.capacity = capacity
        self.calls = 0
        self.locked = False

    def _call(self, name: str) -> None:
        self.calls += 1
        self.before(name)

    def used(self) -> int:
        """How many bytes are used."""
        return sum(len(pages.cached) for pages in self.files.values())

    def crash(self, random: Random) -> None:
        """The power goes: what was not synced may or may not be there afterwards."""
        if self.pending_names:
            survived = random.randrange(len(self.pending_names) + 1)
            if survived:
                self.durable_names = self.pending_names[survived - 1]
        self.files = dict(self.durable_names)
        self.pending_names.clear()
        for pages in self.files.values():
            pages.crash(random)
        self.locked = False

    # The port

    def lock(self) -> None:
        """Lock the directory."""
        if self.locked:
            raise BlockingIOError(errno.EAGAIN, "locked")
        self.locked = True

    def names(self) -> list[str]:
        """The files here."""
        return sorted(self.files)

    def open(self, name: str) -> SimFile:
        """Open a file that is there."""
        self._call("open")
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return SimFile(self, self.files[name])

    def create(self, name: str) -> SimFile:
        """Make a new file."""
        self._call("create")
        if name in self.files:
            raise FileExistsError(errno.EEXIST, "exists", name)
        self.files[name] = Pages()
        self._named()
        return SimFile(self, self.files[name])

    def rename(self, old: str, new: str) -> None:
        """Give a file a new name."""
        self._call("rename")
        self.files[new] = self.files.pop(old)
        self._named()

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._call("remove")
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        del self.files[name]
        self._named()

    def _named(self) -> None:
        self.pending_names.append(dict(self.files))

    def sync(self) -> None:
        """Make the names durable."""
        self._call("sync_directory")
        self.durable_names = dict(self.files)
        self.pending_names.clear()

    def close(self) -> None:
        """Unlock the directory."""
        self.locked = False


class SimFile:
    """An open file on a simulated disk."""

    def __init__(self, disk: SimDisk, pages: Pages) -> None:
        self._disk, self._pages = disk, pages
        self._end = len(pages.cached)

    def append(self, data: bytes) -> None:
        """Write at the end; a full disk takes a part and then refuses."""
        room = self._disk.capacity - self._disk.used()
        if room < len(data):
            self._pages.write(self._end, data[: max(0, room)])
            raise OSError(errno.ENOSPC, "no space left on device")
        try:
            self._disk._call("append")
        except OSError:
            self._pages.write(self._end, data[: len(data) // 2])
            raise
        except PowerCut:
            self._pages.write(self._end, data)
            raise
        self._pages.write(self._end, data)
        self._end += len(data)

    def cut(self, size: int) -> None:
        """Drop everything after `size`."""
        self._disk._call("cut")
        self._pages.cut(size)
        self._end = size

    def sync(self) -> None:
        """Make everything written durable; a failed sync leaves it readable and never durable."""
        try:
            self._disk._call("sync")
        except OSError:
            self._pages.forget()
            raise
        self._pages.sync()

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at an offset."""
        self._disk._call("read")
        return bytes(self._pages.cached[offset : offset + size])

    def size(self) -> int:
        """How long the file is."""
        return len(self._pages.cached)

    def close(self) -> None:
        """Nothing to do."""
