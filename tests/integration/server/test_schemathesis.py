"""Generated requests at every route, by the document the server itself gives: no 5xx, answers as described, nothing lost."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that it imports: not ours to mend
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

from holdkit.client import connect
from holdkit.operations import OPERATIONS
from holdkit.server import Settings
from holdkit.server.openapi import document
from holdkit.server.settings import Rates, Streams, Upkeep
from tests.faults.sampling import STRIDE
from tests.support.servers import LiveServer, live_server

EXAMPLES = 12 if STRIDE == 1 else 4
"""Of each route; always the same, so the few of `make test` are the first of those of `make prove`."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with live_server(
        settings=Settings(
            upkeep=Upkeep(key_refresh=0.05, sweep_every=0),
            rates=Rates(key=1e6, key_burst=10**6),
            streams=Streams(timeout=0.5),
        )
    ) as running:
        with running.client() as http:
            http.post("/v1/pools", json={"id": "0", "total": 5})
        yield running
        with running.client() as http:
            assert http.get("/readyz").status_code == 200
        with connect(running.url, key=running.admin) as hk:
            assert hk.admin.verify().ok


def without_streams() -> dict[str, Any]:
    """The document without what never ends, and without the keys, which would be made up too."""
    made = document(OPERATIONS)
    del made["paths"]["/v1/events"]
    del made["security"], made["components"]["securitySchemes"]
    return made


schema = schemathesis.openapi.from_dict(without_streams())


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_route_keeps_to_its_description(case: Any, server: LiveServer) -> None:
    answer = case.call(base_url=server.url, headers={"Authorization": f"Bearer {server.admin}"})
    case.validate_response(answer, checks=CHECKS)
    assert answer.status_code != 401, "the key was lost on the way"
