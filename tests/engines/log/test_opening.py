"""Opening a log: what is recovered, what is cut off, which files are removed; on a real and on a simulated disk."""

from __future__ import annotations

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.outcomes import Reason, Refusal
from holdkit.engines.log import engine as module
from holdkit.engines.log.segments import START as HEADER
from holdkit.engines.log.segments import encode_frame, segment_name
from holdkit.errors import EngineError, InvalidRequest
from tests.engines.log.directories import Directory, live, open_log, place_hold, say, script, state


@pytest.mark.parametrize("closed", [True, False])
def test_everything_comes_back(directory: Directory, closed: bool) -> None:
    engine = open_log(directory)
    live(engine)
    before = state(engine)
    for _ in range(3):
        engine.close() if closed else directory.kill(engine)
        engine = open_log(directory)
        assert state(engine) == before
        assert list(engine.verify()) == []
    again = say(engine, place_hold(1, op="one"))[0]
    assert getattr(again, "replayed", False)
    engine.close()


def frame_ends(directory: Directory) -> list[int]:
    """Where each frame of the first segment ends, and before them where its header does."""
    engine = open_log(directory)
    ends = [engine._log.segments[0].start, *engine._log._offsets[1:], engine._log.segments[0].end]
    directory.kill(engine)
    return ends


@pytest.mark.parametrize("tail", ["cut", "zeroed", "garbage", "half a frame of another file"])
def test_bad_tail_is_cut_at_the_last_whole_frame(directory: Directory, tail: str) -> None:
    engine = open_log(directory, seed=1)
    states = [state(engine)]
    for command in script():
        say(engine, command)
        states.append(state(engine))
    directory.kill(engine)
    ends, name = frame_ends(directory), segment_name(1)
    whole = directory.get(name)
    assert len(ends) == len(states)
    foreign = encode_frame(bytes(16), 0, 9, 9, b"x" * 700)[:600]
    for index in range(len(ends) - 1):
        for place_of_cut in (ends[index], ends[index] + 1, ends[index + 1] - 1):
            size = place_of_cut - ends[index]
            extra = {"cut": b"", "zeroed": bytes(600), "garbage": b"\xff" * 600}.get(tail, foreign)
            directory.put(name, whole[: ends[index] + size] + extra)
            engine = open_log(directory)
            assert state(engine) == states[index], f"cut at {place_of_cut}"
            for command in list(script())[index:]:
                say(engine, command)
            after = state(engine)
            directory.kill(engine)
            engine = open_log(directory)
            assert state(engine) == after == states[-1]
            directory.kill(engine)


def test_damage_in_the_middle_is_refused_with_its_offset_and_nothing_is_changed(directory: Directory) -> None:
    engine = open_log(directory, seed=1)
    live(engine)
    directory.kill(engine)
    ends, name = frame_ends(directory), segment_name(1)
    whole = directory.get(name)
    for index in range(len(ends) - 2):
        for offset in (ends[index], ends[index] + 30, ends[index + 1] - 1):
            directory.put(name, whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
            before = {each: directory.get(each) for each in directory.names()}
            with pytest.raises(EngineError, match=rf"{name} is damaged at offset {ends[index]}\b.*restore"):
                open_log(directory)
            assert {each: directory.get(each) for each in directory.names()} == before
    directory.put(name, whole)
    open_log(directory).close()


def test_the_same_frame_further_on_is_damage_too(directory: Directory) -> None:
    """A frame that checks where it does not belong in the count means that one before it is missing."""
    engine = open_log(directory, seed=1)
    say(engine, *list(script())[:1])
    segment = engine._log.segments[0]
    directory.kill(engine)
    whole = directory.get(segment.name)
    skipped = encode_frame(segment.file_id, len(whole), engine._log.next_frame + 1, 9, b"later")
    directory.put(segment.name, whole + skipped)
    with pytest.raises(EngineError, match=f"damaged at offset {len(whole)}"):
        open_log(directory)


def test_limits_that_change_meaning_are_stored(directory: Directory) -> None:
    open_log(directory, limits=Limits(max_holds=2, retention=77)).close()
    engine = open_log(directory)
    assert (engine.limits.max_holds, engine.limits.retention) == (2, 77)
    live(engine)
    full = say(engine, place_hold(10), place_hold(11), place_hold(12))[0]
    assert isinstance(full, Refusal)
    assert full.reason is Reason.HOLD_TABLE_FULL
    engine.close()
    with pytest.raises(InvalidRequest, match="max_holds is 2"):
        open_log(directory, limits=Limits(max_holds=3))
    open_log(directory, limits=Limits(max_holds=2, max_batch=7)).close()


def test_segments_roll_and_are_one_log(directory: Directory) -> None:
    engine = open_log(directory, segment_bytes=700)
    live(engine)
    before = state(engine)
    engine.close()
    segments = [name for name in directory.names() if name.endswith(".log")]
    assert len(segments) >= 3
    assert segments == [segment_name(number + 1) for number in range(len(segments))]
    engine = open_log(directory, segment_bytes=700)
    assert state(engine) == before
    engine.close()


def test_progress_is_told_frame_by_frame(directory: Directory) -> None:
    engine = open_log(directory, segment_bytes=700)
    live(engine)
    engine.close()
    told: list[int] = []
    open_log(directory, progress=told.append).close()
    assert told == list(range(1, len(list(script())) + 1))


def test_drafts_of_a_crash_are_removed(directory: Directory) -> None:
    engine = open_log(directory)
    live(engine)
    before = state(engine)
    engine.close()
    for name in ("00000002.log.new", "0000000000000003.snapshot.new"):
        directory.put(name, b"half")
    engine = open_log(directory)
    assert state(engine) == before
    engine.close()
    assert [name for name in directory.names() if name.endswith(".new")] == []


def test_a_snapshot_shortens_opening_and_decides_nothing(directory: Directory) -> None:
    engine = open_log(directory)
    live(engine)
    engine.snapshot()
    say(engine, place_hold(20))
    before = state(engine)
    directory.kill(engine)
    engine = open_log(directory)
    assert (engine.restored_from, state(engine)) == (len(list(script())), before)
    engine.snapshot()
    engine.close()
    (name,) = [name for name in directory.names() if name.endswith(".snapshot")]
    whole = directory.get(name)
    for damage in (whole[:-1], whole[:10], b"", whole + b"x", whole[:60] + b"\0" + whole[61:]):
        directory.put(name, damage)
        engine = open_log(directory)
        assert (engine.restored_from, state(engine)) == (0, before)
        engine.close()


def test_a_close_after_many_entries_leaves_a_snapshot(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_ENTRIES", 5)
    engine = open_log(directory)
    live(engine)
    before = state(engine)
    engine.close()
    engine = open_log(directory)
    assert (engine.restored_from, state(engine)) == (len(list(script())), before)
    say(engine, place_hold(20))
    engine.close()
    assert open_log(directory).restored_from == len(list(script())), "one entry is not many"


def test_header_begins_where_the_format_says(directory: Directory) -> None:
    open_log(directory).close()
    assert directory.get(segment_name(1))[:8] == b"HOLDKIT\x01"
    assert directory.get(segment_name(1))[HEADER : HEADER + 4] == b"HKF1"


def test_segments_of_the_format_before_are_read_and_new_entries_go_into_a_new_one(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("holdkit.engines.log.log.FORMAT", 3)
        engine = open_log(directory)
        live(engine)
        before = state(engine)
        engine.close()
    engine = open_log(directory)
    assert state(engine) == before
    assert [segment.header.format for segment in engine._log.segments] == [3]
    say(engine, place_hold(99, trace="00-1-2-01"))
    assert [segment.header.format for segment in engine._log.segments] == [3, 4]
    after = state(engine)
    engine.close()
    engine = open_log(directory)
    assert state(engine) == after
    assert list(engine.verify()) == []
    engine.close()
