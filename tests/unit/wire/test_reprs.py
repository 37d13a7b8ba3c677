"""What the client of a server gets from `hk.server` prints as one line, without secrets."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec import Struct

from holdkit.client._async import keys, server, tenants, webhooks
from holdkit.wire.fields import at
from holdkit.wire.keys import KeyAnswer, KeyInfo
from holdkit.wire.webhooks import HookAnswer
from tools import api_budget

NOW = at(datetime(2026, 11, 19, 12, tzinfo=UTC))
KEY = KeyInfo(id="ab12", tenant="", scope="hold", name="checkout", state="active", made_at=NOW)
HOOK = HookAnswer(id="wh1", url="https://example.com/" + "x" * 200, actions=["hold.held"], state="active", parked=0, encrypted=True,
                  secret="whsec_a-secret", server_time=NOW)  # fmt: skip


def answers() -> Iterator[type]:
    """The structs that methods of `hk.server` and its namespaces return, also in pages."""
    names = {**vars(keys), **vars(server), **vars(tenants), **vars(webhooks)}
    for path, cls in api_budget.faces(api_budget.kernels()["AsyncRemoteKernel"]).items():
        for _, signature in api_budget.methods_of(cls) if path.startswith("server") else ():
            returned = eval(str(signature.return_annotation), names)
            for kind in (returned, *typing.get_args(returned)):
                if inspect.isclass(kind) and issubclass(kind, Struct):
                    yield kind


ANSWERS = sorted({*answers()}, key=lambda kind: kind.__name__)


def test_the_answers_are_found() -> None:
    assert {KeyAnswer, KeyInfo, HookAnswer} <= {*ANSWERS}
    assert len(ANSWERS) > 9


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_an_answer_has_a_repr_of_its_own(kind: type) -> None:
    assert "__repr__" in {name for base in kind.__mro__ if base.__module__.startswith("holdkit") for name in vars(base)}


def test_a_repr_shows_no_secret() -> None:
    made = KeyAnswer(KEY, "hk_ab12_a-secret", NOW)
    assert repr(made) == "<KeyAnswer ab12 hold checkout>"
    assert repr(KEY) == "<KeyInfo id=ab12 scope=hold name=checkout state=active made_at=2026-11-19 12:00:00Z>"
    assert re.fullmatch(r"<HookAnswer wh1 active https://example\.com/x+…x+>", repr(HOOK))
    assert len(repr(HOOK)) <= 120
