"""B7 and R9: whatever is flipped, cut, zeroed, doubled, swapped or moved in a sealed log: the same state, or a refusal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from holdkit.core.reading import ReadJournal
from holdkit.engines.log import segments
from holdkit.errors import EngineError
from tests.engines.log.directories import SimulatedDirectory, open_log, place_hold, say, script, state


def sealed_log(
    *, snapshot: bool = False, segment_bytes: int = 900, seed: int = 3
) -> tuple[SimulatedDirectory, list[Any]]:
    """A closed log of several segments, and its state after every batch."""
    directory = SimulatedDirectory()
    engine = open_log(directory, seed=seed, segment_bytes=segment_bytes)
    states: list[Any] = [state(engine)]
    for command in script():
        say(engine, command)
        states.append(state(engine))
    if snapshot:
        engine.snapshot()
    engine.close()
    return directory, states


def reopened(files: dict[str, bytes]) -> Any:
    """The state of a directory with these files; None if it is refused. The journal must be found from every place."""
    directory = SimulatedDirectory()
    for name, data in files.items():
        directory.put(name, data)
    try:
        engine = open_log(directory)
    except EngineError:
        return None
    found = state(engine)
    for after in range(len(found[1])):
        if engine.read(ReadJournal(None, {0: after}, 2)) != found[1][after : after + 2]:
            return "a journal that is not found by its numbers"
    return found


def files_of(directory: SimulatedDirectory) -> dict[str, bytes]:
    return {name: directory.get(name) for name in directory.names()}


def flips(files: dict[str, bytes], kind: str) -> Iterator[tuple[str, int, dict[str, bytes]]]:
    """Every bit of every file of a kind, turned."""
    for name, data in files.items():
        if not name.endswith(kind):
            continue
        for bit in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            yield name, bit, {**files, name: bytes(damaged)}


def undetected(files: dict[str, bytes], good: Any, kind: str) -> tuple[str, int] | None:
    for name, bit, damaged in flips(files, kind):
        if reopened(damaged) not in (good, None):
            return name, bit
    return None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".log", ".snapshot"])
def test_b07_every_bit_flipped_is_detected(kind: str) -> None:
    directory, states = sealed_log(snapshot=kind == ".snapshot")
    files = files_of(directory)
    assert any(name.endswith(kind) for name in files)
    assert reopened(files) == states[-1]
    assert undetected(files, states[-1], kind) is None


@pytest.mark.parametrize(
    "weak",
    [
        lambda *_: bytes(16),
        lambda *given: hashlib.blake2b(given[-1], digest_size=16).digest(),
    ],
    ids=["no checksum", "checksum without the header"],
)
def test_canary_a_weaker_checksum_is_noticed(weak: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "checksum", weak)
    directory, states = sealed_log()
    try:
        assert undetected(files_of(directory), states[-1], ".log") is not None
    except ValueError:  # what was read is not even a batch
        return


def test_every_truncation_of_the_last_segment_is_a_whole_prefix() -> None:
    directory, states = sealed_log(segment_bytes=1 << 20)
    files = files_of(directory)
    (name,) = files
    seen = set()
    for size in range(len(files[name])):
        found = reopened({name: files[name][:size]})
        assert found is None or found in states, f"cut at {size}"
        if found is not None:
            seen.add(states.index(found))
    assert seen == set(range(len(states)))


def test_every_truncation_of_an_earlier_segment_is_refused() -> None:
    directory, states = sealed_log()
    files = files_of(directory)
    names = sorted(files)
    assert len(names) >= 3
    for name in names[:-1]:
        whole = len(files[name])
        for size in range(whole):
            found = reopened({**files, name: files[name][:size]})
            assert found in (None, states[-1]), f"{name} cut at {size}"


@pytest.mark.parametrize("damage", ["zeroed", "doubled", "swapped", "moved", "inserted", "removed"])
def test_sectors(damage: str) -> None:
    """Small sectors, so that every part of every frame is hit; behind the end a whole prefix counts as a torn tail."""
    directory, states = sealed_log(segment_bytes=2_000)
    files = files_of(directory)
    random, size = Random(5), 64
    refused = 0
    for name, data in files.items():
        last = name == max(files)
        for start in range(0, len(data) - size, size):
            other = random.randrange(0, len(data) - size)
            one, two = data[start : start + size], data[other : other + size]
            damaged = bytearray(data)
            match damage:
                case "zeroed":
                    damaged[start : start + size] = bytes(size)
                case "doubled":
                    damaged[other : other + size] = one
                case "swapped":
                    damaged[start : start + size], damaged[other : other + size] = two, one
                case "moved":
                    del damaged[start : start + size]
                    damaged[other:other] = one
                case "inserted":
                    damaged[start:start] = two
                case _:
                    del damaged[start : start + size]
            found = reopened({**files, name: bytes(damaged)})
            allowed = states if last else states[-1:]
            assert found is None or found in allowed, f"{damage} at {start} of {name}"
            refused += found is None
    assert refused > 20


def test_a_frame_copied_to_another_place_or_file_never_counts() -> None:
    directory, states = sealed_log(segment_bytes=1 << 20)
    (name,) = files = files_of(directory)
    engine = open_log(directory, seed=3)
    offsets, end = list(engine._log._offsets), engine._log.segments[0].end
    directory.kill(engine)
    data = files[name][:end]
    parts = [data[start:stop] for start, stop in zip(offsets, [*offsets[1:], end], strict=True)]
    for part in parts:
        assert reopened({name: data + part}) == states[-1], "behind the end it is a torn tail"
        for start in offsets:
            changed = data[:start] + part + data[start + len(part) :]
            found = reopened({name: changed})
            assert found is None or found in states
            assert changed == data or found != states[-1]
    other, _ = sealed_log(segment_bytes=1 << 20, seed=4)
    engine = open_log(other, seed=9)
    say(engine, place_hold(77))
    engine.close()
    foreign = other.get(name)
    assert reopened({name: data + foreign[end:]}) == states[-1]
