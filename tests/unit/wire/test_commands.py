"""A command of the core and its document in a batch have the same fields: what a caller can say in Python, it can say over HTTP."""

from __future__ import annotations

from typing import get_args

import holdkit
from holdkit.client.requests import _NOT_SENT
from holdkit.core.commands import COMMANDS
from holdkit.operations import OPERATIONS
from holdkit.server.keys import VERBS
from holdkit.testing.stories import commands as stories
from holdkit.testing.stories.parser import VERBS as WORDS
from holdkit.wire.batches import DOCUMENTS, BatchCommand

OF_FACES = {"on_demand", "label", "others_as_held", "trusted", "forever"}
"""Only faces may set these, and a face has routes of its own."""
NOT_IN_A_BATCH = {
    "leave": "the end of a call that waits, which is none of a batch",
    "feed_line": "the kernel's own",
    "put_record": "has a route of its own",
    "change_limits": "covers all tenants",
    "sweep": "covers all tenants",
}
"""The commands that have no document, and why."""
IN_NO_STORY = {
    "leave": "hold with wait=",
    "feed_line": "the kernel's own",
    "return_to_pool": "return pool/…",
    "change_limits": "change",
}
"""The commands that no verb of a story is called like, and what stories say instead."""


def test_every_field_of_a_command_is_in_its_document() -> None:
    assert len(DOCUMENTS) > 10
    for verb, document in DOCUMENTS.items():
        command = COMMANDS[verb]
        said = set(command.__struct_fields__) - _NOT_SENT - OF_FACES
        if command is holdkit.commands.JoinLine:  # one leg, spelled out
            said = said - {"legs"} | {"pool", "quantity"}
        if command is holdkit.commands.ReturnToPool:  # always forced
            said = said - {"force"}
        assert said <= set(document.__struct_fields__), command


def test_every_field_of_a_document_is_in_its_command() -> None:
    """The server makes the command from the fields of the same name."""
    legs = {"hold": {"pool", "quantity"}, "consume": {"pool", "quantity"}, "join": {"pool", "quantity"}}
    for verb, document in DOCUMENTS.items():
        assert {*document.__struct_fields__} - {*COMMANDS[verb].__struct_fields__} == legs.get(verb, set()), verb


def test_every_command_has_a_document_or_says_why_not() -> None:
    assert {*DOCUMENTS, *NOT_IN_A_BATCH} == {*COMMANDS}
    assert {*DOCUMENTS.values()} == {*get_args(BatchCommand)}


def test_every_command_has_a_scope_for_limited_keys_and_a_route_of_its_own() -> None:
    kinds = {route.name: route.scope for route in OPERATIONS}
    for verb in DOCUMENTS:
        assert VERBS[verb] == kinds[verb], verb


def test_every_command_has_a_word_in_stories_or_says_why_not() -> None:
    words = {kind.verb for word, kind in stories.COMMANDS.items() if word in WORDS}
    assert words | {*IN_NO_STORY} == {*COMMANDS}


def test_every_command_that_users_have_can_be_sent() -> None:
    public = vars(holdkit.commands).values()
    exported = {verb for verb, kind in COMMANDS.items() if kind in public}
    assert exported == {*DOCUMENTS, "put_record", "sweep"}
