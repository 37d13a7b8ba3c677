"""Archives that were damaged, swapped or forged: a run of archiving refuses to go on, and names the file, before any entry leaves; `verify`
names what a run does not look at.

Who forges may compute every checksum in the files anew (`Files.rewrite`), but cannot write to the database. There are three files for each
lane, of which PostgreSQL has two here.
"""

from __future__ import annotations

import gzip
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import structs

import holdkit
from holdkit.core.archived import FindArchived
from holdkit.core.lanes import lane_of_pool
from holdkit.core.seals import decode_seal, encode_seal
from holdkit.engines.archive_files import (
    ArchivedEntry,
    ArchiveDirectory,
    ArchivedLine,
    ArchivedSeal,
    ArchiveFile,
    archived_entry,
    file_name,
    read_archive_file,
    read_head,
    write_archive_file,
)
from holdkit.errors import EngineError
from holdkit.kernel.archive import archived_entries
from holdkit.kernel.export import export
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock
from tests.support.databases import Databases

DAY = 86_400


class Made(NamedTuple):
    """A database with an archive in three files for each lane, and entries that the next run would archive."""

    url: str
    to: Path
    clock: FakeClock
    kernel: holdkit.Kernel
    before: Path
    """The directory as it was before somebody was erased."""
    exported: list[bytes]
    """Its whole history, with the entries of the files."""


def exported(made: Made) -> list[bytes]:
    engine = made.kernel._executor.engine
    return list(export(engine, archive=archived_entries(engine, made.to)))


def make(url: str, folder: Path, *, sealed: bool) -> Made:
    clock, to = FakeClock(1_700_000_000_000_000), folder / "archive"
    hk = holdkit.connect(url, clock=clock)
    lanes = hk._executor.engine.lanes
    names = [f"p{number}" for number in range(100)]
    pools = [next(name for name in names if lane_of_pool(("", name), lanes) == lane) for lane in range(lanes)]
    sealer = Sealer(hk._executor.engine)

    def seal() -> None:
        while sealed and sealer.step(all_now=True):
            pass

    for pool in pools:
        hk.create_pool(pool, 100)
    for turn in range(4):
        for pool in pools:
            for number in range(3):
                hold = hk.hold(pool, 1, ttl=60, actor=f"user:{turn}{number}", account=f"c{number}")
                (hk.confirm if number == 1 else hk.release)(hold, actor=f"user:{turn}{number}")
            seal()
            hk.admin.resize_pool(pool, 99 - turn)
        clock.advance(9 * DAY)
        seal()
        if turn < 3:
            assert hk.admin.archive(before="1d", to=to).entries >= 6 * lanes
    shutil.copytree(to, folder / "before")
    assert hk.admin.erase("actor", "user:11", reason="request 1", archive=to).found
    assert hk.admin.verify(archive=to).differences == ()
    made = Made(url, to, clock, hk, folder / "before", [])
    return made._replace(exported=exported(made))


SEALED = ["sqlite", "postgres"]
ALL = [*SEALED, "sqlite without seals"]


@pytest.fixture(scope="module")
def original(
    request: pytest.FixtureRequest, postgres_kept: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("original")
    taken = postgres_kept.take("one server", 2, None) if request.param == "postgres" else None
    url = f"sqlite:///{folder}/holds.db" if taken is None else taken.url
    made = make(url, folder, sealed=request.param in SEALED)
    shutil.copytree(made.to, folder / "whole")
    yield made
    made.kernel.close()
    if taken is not None:
        taken.give_back()


class Files:
    """The directory of an archive, as a forger sees it."""

    def __init__(self, made: Made) -> None:
        self.to, self.before = made.to, made.before
        self.old, self.middle, self.newest = ArchiveDirectory(made.to).files(0)
        self.others = ArchiveDirectory(made.to).files(1)

    def rewrite(
        self, file: ArchiveFile, change: Callable[[list[ArchivedLine]], list[ArchivedLine]], **head: object
    ) -> ArchiveFile:
        """Other lines, or another head, under the name that fits; every checksum is computed anew."""
        changed = structs.replace(read_head(file), **head)
        lines = change(list(read_archive_file(file)))
        file.path.unlink()
        written, _ = write_archive_file(self.to, changed, lines)
        return written


def renumbered(lines: list[ArchivedLine], first: int, lane: int) -> list[ArchivedLine]:
    entries = [line for line in lines if isinstance(line, ArchivedEntry)]
    return [archived_entry(structs.replace(line.row, seq=seq, lane=lane)) for seq, line in enumerate(entries, first)]


def same(lines: list[ArchivedLine]) -> list[ArchivedLine]:
    return lines


def another_actor(lines: list[ArchivedLine], name: str = "someone") -> list[ArchivedLine]:
    at, line = next(
        (at, line) for at, line in enumerate(lines) if isinstance(line, ArchivedEntry) and '"actor"' in line.text
    )
    start = line.text.index('"actor":"') + len('"actor":"')
    end = line.text.index('"', start)
    text = f"{line.text[:start]}{name}{line.text[end:]}"
    return [*lines[:at], archived_entry(structs.replace(line.row, text=text)), *lines[at + 1 :]]


def same_size(of: Files, file: ArchiveFile) -> None:
    """One actor for all entries, which compresses better, and a name in the gzip header that makes the file as long as it was."""
    size = file.size
    forged = of.rewrite(file, one_actor)
    missing = size - forged.size
    assert missing > 0, "the forged file is shorter"
    bytes_of(forged, lambda data: data[:3] + b"\x08" + data[4:10] + b"x" * (missing - 1) + b"\0" + data[10:])
    assert forged.size == size


def one_actor(lines: list[ArchivedLine]) -> list[ArchivedLine]:
    """The same short actor in every entry that has one."""
    named = re.compile(r'"actor":"[^"]*"')
    return [
        archived_entry(structs.replace(line.row, text=named.sub('"actor":"u"', line.text)))
        if isinstance(line, ArchivedEntry)
        else line
        for line in lines
    ]


def two_swapped(lines: list[ArchivedLine]) -> list[ArchivedLine]:
    """Two releases trade places, with each other's numbers."""
    at = [n for n, line in enumerate(lines) if isinstance(line, ArchivedEntry) and "hold.released" in line.text][:2]
    first, second = (lines[n].row for n in at)  # type: ignore[union-attr]
    out = [*lines]
    out[at[0]] = archived_entry(structs.replace(second, seq=first.seq))
    out[at[1]] = archived_entry(structs.replace(first, seq=second.seq))
    return out


def removed(files: Iterable[ArchiveFile]) -> None:
    for file in files:
        file.path.unlink()


def in_two_parts(to: Path, file: ArchiveFile) -> None:
    head, lines = read_head(file), list(read_archive_file(file))
    write_archive_file(to, structs.replace(head, last=3), lines[:3])
    write_archive_file(to, structs.replace(head, first=4), lines[3:])
    removed([file])


def seals(change: Callable[[list[ArchivedSeal]], Sequence[ArchivedSeal | None]]) -> Callable[[Any], list[ArchivedLine]]:
    """Other seals at the places of the seals; None: no line."""

    def changed(lines: list[ArchivedLine]) -> list[ArchivedLine]:
        new = iter(change([line for line in lines if isinstance(line, ArchivedSeal)]))
        out = [next(new) if isinstance(line, ArchivedSeal) else line for line in lines]
        return [line for line in out if line is not None]

    return changed


def with_seal(**fields: object) -> Callable[[list[ArchivedSeal]], list[ArchivedSeal | None]]:
    """The last seal has other values; salts may be computed from it."""

    def change(found: list[ArchivedSeal]) -> list[ArchivedSeal | None]:
        seal = decode_seal(found[-1].seal)
        values = {name: value(seal) if callable(value) else value for name, value in fields.items()}
        return [*found[:-1], ArchivedSeal(msgspec.Raw(encode_seal(structs.replace(seal, **values))))]

    return change


def bytes_of(file: ArchiveFile, change: Callable[[bytes], bytes]) -> None:
    file.path.write_bytes(change(file.path.read_bytes()))


def flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at:][1:]


def swap(one: ArchiveFile, other: ArchiveFile) -> None:
    data = one.path.read_bytes()
    one.path.write_bytes(other.path.read_bytes())
    other.path.write_bytes(data)


def copied(file: ArchiveFile, lane: int, first: int | None = None) -> Path:
    first = file.first if first is None else first
    return Path(shutil.copy(file.path, file.path.parent / file_name(lane, first, first + file.entries - 1)))


def moved_into(files: Files, file: ArchiveFile, lane: int) -> None:
    """A copy of a file with another lane in its head and in each line."""
    lines = renumbered(list(read_archive_file(file)), file.first, lane)
    write_archive_file(files.to, structs.replace(read_head(file), lane=lane), lines)


FORGERIES: dict[str, Callable[[Files], object]] = {
    # bytes
    "a flipped byte in the newest": lambda of: bytes_of(of.newest, lambda data: flipped(len(data) // 2)(data)),
    "a flipped checksum of the newest": lambda of: bytes_of(of.newest, lambda data: flipped(len(data) - 6)(data)),
    "an old one cut": lambda of: bytes_of(of.old, lambda data: data[:-1]),
    "an old one halved": lambda of: bytes_of(of.old, lambda data: data[: len(data) // 2]),
    "an old one empty": lambda of: bytes_of(of.old, lambda _: b""),
    "an old one longer": lambda of: bytes_of(of.old, lambda data: data + b"\0"),
    "an old one twice": lambda of: bytes_of(of.old, lambda data: data + data),
    "an old one without gzip": lambda of: bytes_of(of.old, gzip.decompress),
    "an old one compressed anew": lambda of: bytes_of(of.old, lambda data: gzip.compress(gzip.decompress(data), 1)),
    "the newest cut": lambda of: bytes_of(of.newest, lambda data: data[:-9]),
    # files
    "the oldest missing": lambda of: of.old.path.unlink(),
    "one in the middle missing": lambda of: of.middle.path.unlink(),
    "the newest missing": lambda of: of.newest.path.unlink(),
    "all missing": lambda of: removed(ArchiveDirectory(of.to).files()),
    "two swapped": lambda of: swap(of.old, of.middle),
    "an old one and the newest swapped": lambda of: swap(of.old, of.newest),
    "one renamed": lambda of: of.old.path.rename(of.to / file_name(0, of.old.first, of.old.last + 1)),
    "one of a lane that does not exist": lambda of: copied(of.old, 1 + bool(of.others)),
    "one of such a lane, forged": lambda of: moved_into(of, of.old, 1 + bool(of.others)),
    "one copied within its lane": lambda of: copied(of.old, 0, of.old.first + 1),
    "one of another lane": lambda of: swap(of.old, (of.others or [of.middle])[0]),
    "one of another lane, forged": lambda of: of.rewrite(
        of.old, lambda _: renumbered(list(read_archive_file((of.others or [of.middle])[0])), of.old.first, 0)
    ),
    "one in two parts": lambda of: in_two_parts(of.to, of.old),
    "a forged one beside it": lambda of: write_archive_file(
        of.to, structs.replace(read_head(of.old), last=3), another_actor(list(read_archive_file(of.old)))[:3]
    ),
    "one put back from before an erasure": lambda of: shutil.copy(of.before / of.middle.path.name, of.middle.path),
    "all put back from before an erasure": lambda of: shutil.copytree(of.before, of.to, dirs_exist_ok=True),
    # heads
    "another number of lanes": lambda of: of.rewrite(of.old, same, lanes=of.old.lane + 8),
    "another generation in an old one": lambda of: of.rewrite(
        of.old, same, generation="of a much longer name: 0123456789"
    ),
    "another generation in the newest": lambda of: of.rewrite(of.newest, same, generation="0123456789abcdef"),
    "another format": lambda of: bytes_of(
        of.old, lambda data: gzip.compress(gzip.decompress(data).replace(b'"format":1', b'"format":2'))
    ),
    # entries
    "another actor in an old one": lambda of: of.rewrite(of.old, another_actor),
    "another actor in the newest": lambda of: of.rewrite(of.newest, another_actor),
    "one actor in the newest, of the same size": lambda of: same_size(of, of.newest),
    "two entries swapped in the newest": lambda of: of.rewrite(of.newest, two_swapped),
}
SEAL_FORGERIES: dict[str, Callable[[Files], object]] = {
    "an old one without seals": lambda of: of.rewrite(of.old, seals(lambda found: [None] * len(found))),
    "the newest without seals": lambda of: of.rewrite(of.newest, seals(lambda found: [None] * len(found))),
    "the newest without its last seal": lambda of: of.rewrite(of.newest, seals(lambda found: [*found[:-1], None])),
    "a seal twice in the newest": lambda of: of.rewrite(of.newest, lambda lines: [*lines, lines[-1]]),
    "seals swapped in the newest": lambda of: of.rewrite(of.newest, seals(lambda found: found[::-1])),
    "another salt in the newest": lambda of: of.rewrite(
        of.newest, seals(with_seal(salts=lambda seal: structs.replace(seal.salts, run="0" * 32)))
    ),
    "another salt in an old one": lambda of: of.rewrite(
        of.old, seals(with_seal(salts=lambda seal: structs.replace(seal.salts, run="0" * 32)))
    ),
    "a signature in the newest": lambda of: of.rewrite(of.newest, seals(with_seal(signature="00", key_id="mine"))),
    "another digest in the newest": lambda of: of.rewrite(of.newest, seals(with_seal(digest="0" * 64))),
    "another slot in the newest": lambda of: of.rewrite(of.newest, seals(with_seal(slot=1))),
    "a seal that is none": lambda of: of.rewrite(
        of.newest, seals(lambda found: [*found[:-1], ArchivedSeal(msgspec.Raw(b'{"lane":"x"}'))])
    ),
}
LEFT_TO_VERIFY: dict[str, Callable[[Files], object]] = {
    "a flipped byte in an old one": lambda of: bytes_of(of.old, lambda data: flipped(len(data) // 2)(data)),
    "a flipped checksum of an old one": lambda of: bytes_of(of.old, lambda data: flipped(len(data) - 6)(data)),
    "a flipped byte in the middle one": lambda of: bytes_of(of.middle, lambda data: flipped(len(data) * 2 // 3)(data)),
}
"""What a run of archiving does not see: it reads the newest file of a lane only."""


@pytest.fixture
def made(original: Made) -> Iterator[Made]:
    yield original
    shutil.rmtree(original.to, ignore_errors=True)
    shutil.copytree(original.to.parent / "whole", original.to)


def verified(made: Made) -> str:
    """What `verify` says, with the files."""
    try:
        return "; ".join(map(str, made.kernel.admin.verify(archive=made.to).differences))
    except EngineError as error:
        return str(error)


def assert_refused(made: Made, forge: Callable[[Files], object]) -> None:
    engine = made.kernel._executor.engine
    before = engine.read(FindArchived())
    forge(Files(made))
    with pytest.raises(EngineError) as refused:
        made.kernel.admin.archive(before="1d", to=made.to)
    assert str(made.to / "lane-000") in str(refused.value), "it names the file"
    assert engine.read(FindArchived()) == before, "nothing has left"
    said = verified(made)
    assert "lane-000" in said or "has no file with entry" in said
    with suppress(EngineError):
        assert exported(made) == made.exported, "an export has the whole history, or none"
    with pytest.raises(EngineError, match=r"nothing was erased|is damaged|has format"):
        made.kernel.admin.erase("actor", "user:22", reason="request 2", archive=made.to)
    assert made.kernel.admin.verify().differences == (), "rows and journal are what they were"


@pytest.mark.parametrize("original", ALL, indirect=True)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_was_forged_is_noticed_before_an_entry_leaves(made: Made, forgery: str) -> None:
    assert_refused(made, FORGERIES[forgery])


@pytest.mark.parametrize("original", SEALED, indirect=True)
@pytest.mark.parametrize("forgery", SEAL_FORGERIES)
def test_what_was_done_to_seals_is_noticed_before_an_entry_leaves(made: Made, forgery: str) -> None:
    assert_refused(made, SEAL_FORGERIES[forgery])


@pytest.mark.parametrize("original", ALL, indirect=True)
@pytest.mark.parametrize("forgery", LEFT_TO_VERIFY)
def test_a_flipped_byte_in_an_older_file_is_named_by_verify(made: Made, forgery: str) -> None:
    LEFT_TO_VERIFY[forgery](Files(made))
    assert "lane-000" in verified(made), "it names a file"


@pytest.mark.parametrize("original", ALL, indirect=True)
def test_what_is_no_part_of_the_archive_disturbs_nobody(made: Made) -> None:
    """Other files, and names in another spelling, which could be taken for a file of it."""
    files = Files(made)
    (made.to / "notes.txt").write_text("ours")
    shutil.copy(files.old.path, made.to / files.middle.path.name.replace("lane-0000", "lane-00000"))
    (made.to / file_name(0, files.newest.last + 1, files.newest.last + 9)).mkdir()
    assert made.kernel.admin.verify(archive=made.to).differences == ()


@pytest.mark.parametrize(
    ("forgery", "says"),
    [("another salt in the newest", "is not that of the database"), ("the newest without seals", "is missing")],
)
def test_seals_in_files_of_an_earlier_release_are_compared_too(forgery: str, says: str, tmp_path: Path) -> None:
    """It stored nothing of its files, so that no size and no checksum tells."""
    made = make(f"sqlite:///{tmp_path}/holds.db", tmp_path, sealed=True)
    with closing(sqlite3.connect(tmp_path / "holds.db")) as db, db:
        assert db.execute("delete from holdkit_baseline where kind in ('file', 'total')").rowcount == 4
    SEAL_FORGERIES[forgery](Files(made))
    with pytest.raises(EngineError, match=f"lane-0000-.* the seal of the run that ends with entry .* {says}"):
        made.kernel.admin.archive(before="1d", to=made.to)
    made.kernel.close()


@pytest.mark.parametrize("original", SEALED, indirect=True)
def test_the_archive_itself_is_whole(made: Made) -> None:
    """Else every other test here would pass."""
    engine = made.kernel._executor.engine
    assert [len(ArchiveDirectory(made.to).files(lane)) for lane in range(engine.lanes)] == [3] * engine.lanes
    assert all(
        isinstance(list(read_archive_file(file))[-1], ArchivedSeal) for file in ArchiveDirectory(made.to).files()
    )
    assert made.kernel.admin.verify(archive=made.to).differences == ()
    assert made.kernel.admin.verify(archive=made.before).differences != (), "it tells of somebody who was erased"
    assert len(exported(made)) > 30
