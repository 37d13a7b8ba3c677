"""What a body costs: its bytes are charged before it is read, if it declares them, and each thing that it lists costs a token."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec import inspect, structs

from holdkit.operations import OPERATIONS
from holdkit.server.limits import Bucket
from tests.integration.server.test_costs import ACME, FROZEN, play
from tests.support.servers import InProcessApp


@pytest.mark.parametrize(("size", "status"), [(60_000, 429), (10**17, 413)])
def test_a_body_that_its_tenant_may_not_send_now_is_refused_before_it_is_read(size: int, status: int) -> None:
    few = structs.replace(FROZEN, rates=structs.replace(FROZEN.rates, tenant_bytes_burst=100_000))

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        bucket = here.running.limits.bytes._buckets["acme"] = Bucket(0, time.monotonic())
        sent = list[Any]()

        async def receive() -> Any:
            raise AssertionError("the body is read")

        async def send(message: Any) -> None:
            sent.append(message)

        key = await here.key("hold", "acme")
        headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-length", b"%d" % size)]
        scope = {"type": "http", "method": "POST", "path": "/v1/holds", "query_string": b"", "headers": headers}
        await here.application(scope, receive, send)
        assert sent[0]["status"] == status
        assert 0 <= bucket.level < 1_000, "nothing is charged"
        assert here.running.limits.in_work == 0

    play(work, settings=few)


def test_a_body_that_declares_no_size_is_charged_when_it_was_read() -> None:
    few = structs.replace(FROZEN, rates=structs.replace(FROZEN.rates, tenant_bytes_burst=100_000))

    async def work(here: InProcessApp, ids: dict[str, str]) -> None:
        async def parts() -> Any:
            for _ in range(3):
                yield b" " * 20_000
            yield b"{}"

        bucket = here.running.limits.bytes._buckets["acme"] = Bucket(100_000, time.monotonic())
        headers = {"content-type": "application/json"}
        statuses = [
            (await here.call("POST", "/v1/holds", content=parts(), headers=headers, op=f"c{n}", **ACME)).status_code
            for n in range(2)
        ]
        assert statuses == [400, 429]
        assert 0 <= bucket.level - (100_000 - 60_002) < 1_000

    play(work, settings=few)


def test_every_list_of_a_body_that_the_kernel_works_through_is_counted() -> None:
    """So that an operation with a list of things cannot be forgotten in the table."""
    lists = {
        operation.name: [field.name for field in inspect.type_info(operation.body).fields if _is_list(field.type)]  # type: ignore[attr-defined]
        for operation in OPERATIONS
        if operation.body is not None
    }
    uncounted = {
        name for name, fields in lists.items() if fields and not next(o for o in OPERATIONS if o.name == name).counted
    }
    assert uncounted == {"make_key", "make_webhook"}, "prefixes, verbs and actions: a few words each"
    assert sum(map(bool, lists.values())) > 15


def _is_list(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_list(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_list, kind.types))
    return isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType)
