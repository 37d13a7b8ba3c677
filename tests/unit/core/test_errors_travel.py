"""Errors survive being pickled on the way back from a worker process."""

from __future__ import annotations

import copy
import pickle

import pytest

import holdkit


@pytest.mark.parametrize(
    "error",
    [
        holdkit.InvalidRequest("must be text", field="id", code="id_not_text"),
        holdkit.InsufficientCapacity("pool 'p' is empty", replayed=True, available=0, requested=3),
        holdkit.Overloaded("busy", retry_after=2.5),
        holdkit.OutcomeUnknown("who knows"),
    ],
)
def test_pickle_and_copy_keep_everything(error: holdkit.HoldkitError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__
