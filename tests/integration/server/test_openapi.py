"""The OpenAPI document: valid, complete, and the same as the code that it describes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from schemathesis.specs.openapi import definitions

import holdkit.server
import holdkit.wire
from holdkit.errors import REFUSALS
from holdkit.operations import OPERATIONS
from holdkit.server.openapi import TAGS, document
from holdkit.server.reasons import REASONS, RETRIED, status_of
from holdkit.wire.fields import decoder, encode
from holdkit.wire.problems import STATUSES, STORED, ProblemAnswer
from holdkit.wire.stats import Stats
from tests.acceptance.docs.pages import ROOT, table_rows
from tests.support.servers import in_process_app

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


MADE = document(OPERATIONS)
DESCRIBED = [operation for path in MADE["paths"].values() for operation in path.values()]
TIMES = re.compile(r"(.*_at|server_time|since|opens|closes|leased_until|decided)")


def test_it_is_valid() -> None:
    assert [error.message for error in definitions.OPENAPI_31_VALIDATOR.iter_errors(MADE)] == []


def test_the_validator_finds_what_is_wrong() -> None:
    wrong = {**MADE, "paths": {"/v1/pools": {"get": {"responses": {"200": {}}}}}}
    assert list(definitions.OPENAPI_31_VALIDATOR.iter_errors(wrong))


def test_every_reference_leads_somewhere() -> None:
    found = set(references(MADE))
    assert len(found) > 100
    for reference in found:
        place: Any = MADE
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a document."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "$ref":
                yield item
            else:
                yield from references(item)


def test_every_operation_has_a_tag_a_description_and_a_name_of_its_own() -> None:
    assert len({operation["operationId"] for operation in DESCRIBED}) == len(DESCRIBED) > 60
    assert {tag for operation in DESCRIBED for tag in operation["tags"]} == set(TAGS)
    for operation in DESCRIBED:
        assert len(operation["description"]) > 20
        assert operation["summary"]
        for status, response in operation["responses"].items():
            assert status.startswith(("2", "3")) or "$ref" in response


def test_every_time_is_a_date_time() -> None:
    seen = 0
    for name, schema in MADE["components"]["schemas"].items():
        for field, kind in schema.get("properties", {}).items():
            forms = kind.get("anyOf", [kind])
            if TIMES.fullmatch(field) and any(form.get("type") == "string" for form in forms):
                assert any(form.get("format") == "date-time" for form in forms), (
                    f"{name}.{field}: use Time of wire/fields"
                )
                seen += 1
    assert seen > 60
    for name in ("HoldNow", "ClaimAnswer", "EntryAnswer", "ProblemAnswer", "PlaceAnswer", "UsageAnswer", "SagaAnswer"):
        text = str(MADE["components"]["schemas"][name])
        assert "_slot'" not in text, "a time is one field"
        assert r"\\.\\d{6}Z$" in text, "an answer has times with six digits"


def test_states_actions_and_scopes_are_enumerated() -> None:
    schemas = MADE["components"]["schemas"]
    assert schemas["State"]["enum"] == ["confirmed", "expired", "held", "released", "waiting"]
    assert "hold.confirmed" in schemas["EntryAnswer"]["properties"]["action"]["enum"]
    assert schemas["KeyInfo"]["properties"]["state"]["enum"] == ["active", "expired", "revoked"]
    assert schemas["Item"]["properties"]["state"]["enum"] == ["available", "confirmed", "held", "missing"]
    assert schemas["WhoAmI"]["properties"]["scope"]["enum"] == ["admin", "hold", "read"]


def test_the_text_under_a_field_is_its_description_and_what_is_always_sent_is_required() -> None:
    schemas = MADE["components"]["schemas"]
    assert schemas["Durability"]["properties"]["says"]["description"] == "`level` as a sentence."
    assert "advice" in schemas["Durability"]["required"]  # it has a default, and is sent all the same
    assert "token" not in schemas["HoldNow"]["required"]
    assert "exist_ok" not in schemas["NewPool"]["required"]


def test_force_needs_a_reason() -> None:
    schemas = MADE["components"]["schemas"]
    forced = {name for name, schema in schemas.items() if "force" in schema.get("properties", {})}
    assert forced > {"Confirm", "Release", "Extend", "Return", "Join", "NewConsume", "BatchConfirm"}
    for name in forced:
        assert schemas[name]["if"]["properties"] == {"force": {"const": True}}
        assert schemas[name]["then"]["required"] == ["reason"]
    for name in ("FreeClaim", "FreeItems", "ReturnToPool", "BatchReturnToPool"):
        assert "reason" in schemas[name]["required"]
        assert "force" not in schemas[name]["properties"]


def test_every_example_is_a_problem() -> None:
    examples = MADE["components"]["examples"]
    assert len(examples) > 60
    for reason, example in examples.items():
        problem = decoder(ProblemAnswer).decode(encode(example["value"]))
        assert (problem.reason, problem.status) == (reason, status_of(reason))
        assert len(problem.detail) > 10


def given_in_code() -> set[tuple[int, str]]:
    """Every status and reason that the server's code gives by itself."""
    found: set[tuple[int, str]] = set()
    for path in (*Path(holdkit.server.__file__).parent.rglob("*.py"), *Path(holdkit.wire.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Problem" and len(node.args) >= 2:
                status, reason = node.args[:2]
                if isinstance(status, ast.Constant) and isinstance(reason, ast.Constant):
                    found.add((int(str(status.value)), str(reason.value)))
    return found


def test_every_reason_of_the_server_is_in_the_table_and_no_other() -> None:
    given = given_in_code()
    assert len(given) > 40
    listed = {(meaning.status, reason) for reason, meaning in REASONS.items()}
    elsewhere = {(status_of(reason), reason) for reason in STORED} | {(503, "saga_busy")}
    of_applications = {(409, "saga_parked"), (409, "saga_cancelled")}  # the server runs no sagas
    assert given - listed == of_applications, "add it to server/reasons.py and to docs/http.md"
    assert listed - given - elsewhere == set(), "nothing gives it"
    assert all(STATUSES[reason] == meaning.status for reason, meaning in REASONS.items() if reason in STATUSES)


def test_every_reason_of_a_route_is_known() -> None:
    named = {reason for route in OPERATIONS for reason in (*route.reasons, *RETRIED)}
    assert named - set(REASONS) - set(REFUSALS) == set()


def test_the_page_lists_the_same_reasons() -> None:
    rows = [row for row in table_rows(ROOT / "docs/http.md") if len(row) == 3 and row[1].isdigit()]
    listed = {(row[0].strip("`"), int(row[1]), row[2]) for row in rows}
    assert listed == {(reason, meaning.status, meaning.says) for reason, meaning in REASONS.items()}


async def test_it_is_served_without_a_key() -> None:
    async with in_process_app() as here:
        answer: httpx.Response = await here.call("GET", "/v1/openapi.json", key=None)
        assert answer.json() == msgspec.json.decode(msgspec.json.encode(MADE))


async def test_the_statistics_have_the_fields_of_their_document() -> None:
    async with in_process_app() as here:
        answer = (await here.call("GET", "/v1/stats")).json()
        assert answer.keys() == set(Stats.__struct_fields__)
        decoder(Stats).decode(encode(answer))
