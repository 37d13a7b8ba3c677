"""A command of the core and its document in a batch have the same fields: what a caller can say in Python, it can say over HTTP."""

from __future__ import annotations

from typing import get_args

import holdkit
from holdkit.client.requests import _DOCUMENTS, _NOT_SENT
from holdkit.wire.batches import BatchCommand

OF_FACES = {"on_demand", "label", "others_as_held", "trusted", "forever"}
"""Only faces may set these, and a face has routes of its own."""


def test_every_field_of_a_command_is_in_its_document() -> None:
    assert len(_DOCUMENTS) > 10
    for command, document in _DOCUMENTS.items():
        said = set(command.__struct_fields__) - _NOT_SENT - OF_FACES
        if command is holdkit.commands.JoinLine:  # one leg, spelled out
            said = said - {"legs"} | {"pool", "quantity"}
        assert said <= set(document.__struct_fields__), command


def test_every_document_of_a_batch_has_a_command() -> None:
    assert set(_DOCUMENTS.values()) == set(get_args(BatchCommand))


def test_every_command_that_users_have_can_be_sent() -> None:
    exported = {kind for kind in vars(holdkit.commands).values() if isinstance(kind, type) and kind in _DOCUMENTS}
    assert exported == set(_DOCUMENTS)
