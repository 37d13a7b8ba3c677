"""What to do next is said in the words of the interface: nobody who calls HTTP reads a Python name, and nobody in Python a path."""

from __future__ import annotations

import re

import pytest

from holdkit.client.problems import refusal_from
from holdkit.core.outcomes import Reason, Refusal, Shortfall
from holdkit.kernel.answers import refusal_of
from holdkit.kernel.hints import FACTS, NEXT, in_words_of
from holdkit.wire.problems import Facts, detail_of

OF_PYTHON = re.compile(r"\w\(|_pool\b|\bhk\.|\w=(?!…)|pass the Hold|holdkit\.")
OF_HTTP = re.compile(r"/v1/|\b(GET|POST|PUT|DELETE)\b|Idempotency-Key|Holdkit-Ticket|\bbody\b|\bfield\b")
OF_CLI = re.compile(r"--\w|\bholdkit [a-z]")
COUNTED = (Reason.INSUFFICIENT_CAPACITY, Reason.QUANTITY_EXCEEDS_CONSUMED, Reason.ACCOUNT_LIMIT)


def refused(reason: Reason) -> Refusal:
    short = (Shortfall("p", 3, 1, 10),) if reason in COUNTED else ()
    return Refusal(reason, "it", short, found=None if short else 7)


def test_every_hint_belongs_to_a_reason() -> None:
    assert {*FACTS, *COUNTED} == {*Reason}
    assert len(NEXT) > 20
    assert NEXT.keys() <= {*Reason}


@pytest.mark.parametrize("reason", FACTS)
def test_the_facts_call_nothing_by_name(reason: str) -> None:
    assert not OF_PYTHON.search(FACTS[reason])
    assert not OF_HTTP.search(FACTS[reason])
    assert not OF_CLI.search(FACTS[reason])


@pytest.mark.parametrize("reason", NEXT)
def test_each_interface_has_its_own_words(reason: str) -> None:
    hint = NEXT[reason]
    assert all(hint)
    assert not OF_HTTP.search(hint.python.replace("with the field", ""))
    assert not OF_CLI.search(hint.python)
    assert not OF_PYTHON.search(hint.http)
    assert not OF_CLI.search(hint.http)
    assert not OF_PYTHON.search(re.sub(r"--set \w+=…", "", hint.cli))
    assert not OF_HTTP.search(hint.cli)


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("replayed", [False, True])
def test_a_message_goes_over_http_and_back(reason: Reason, replayed: bool) -> None:
    refusal = refused(reason)
    here = refusal_of(Refusal(reason, refusal.subject, refusal.shortfalls, refusal.found, replayed))
    detail = detail_of(here)
    assert not OF_PYTHON.search(detail)
    remote = refusal_from(reason, detail, Facts(subject="it"), replayed=replayed)
    assert str(remote) == str(here)
    typed = in_words_of("cli", reason, str(remote))
    assert in_words_of("python", reason, typed) == str(here)
    assert not OF_HTTP.search(typed)
