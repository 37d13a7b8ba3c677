"""Text that no route may pass on: a path variable that looks like the routing table's own mark, and NUL, which PostgreSQL
cannot store. Generated from the route table, so that a new route is covered the day it is added."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import holdkit
from holdkit.operations import OPERATIONS, Operation
from holdkit.testing.postgres import ServerAddress
from holdkit.wire.fields import Body
from tests.integration.server.test_authorization_matrix import BODIES, name_of
from tests.support.servers import InProcessApp, in_process_app

WITH_VARIABLES = [route for route in OPERATIONS if "{" in route.path]
LOOKALIKES = ("{}", "%7B%7D", "{pool}", "{hold}", "__methods__", "%00methods")


@pytest.fixture(scope="session")
def postgres_template(postgres_server: ServerAddress) -> str:
    return postgres_server.template("holdkit_server", lambda url: holdkit.migrate(url, lanes=4))


def path_with(route: Operation, segment: str) -> str:
    """The route's path, with this segment for each variable."""
    return "/".join(segment if part.startswith("{") else part for part in route.path.split("/"))


def test_no_path_variable_is_mistaken_for_a_mark_of_the_routing_table() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            for route in WITH_VARIABLES:
                for segment in LOOKALIKES:
                    body = None if route.body is None else BODIES.get(route.name, {})
                    answer = await here.call(route.method, path_with(route, segment), body, op="lookalike")
                    assert answer.status_code < 500, (name_of(route), segment, answer.text)

    assert len(WITH_VARIABLES) > 30
    asyncio.run(main())


def test_a_pool_may_have_the_name_of_a_mark() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            assert (await here.call("POST", "/v1/pools", {"id": "{}", "total": 3})).status_code == 201
            assert (await here.call("GET", "/v1/pools/%7B%7D")).json()["total"] == 3

    asyncio.run(main())


def with_nul(value: Any) -> Iterator[Any]:
    """The document once for each of its texts and names, with a NUL in it."""
    if isinstance(value, str):
        yield value + "\0"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in with_nul(item))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from ({**value, name: other} for other in with_nul(item))
            yield {**{key: kept for key, kept in value.items() if key != name}, name + "\0": item}


def text_parameters(route: Operation) -> list[str]:
    """The query parameters of a route that take text."""
    return [field.name for field in msgspec.structs.fields(route.query) if field.type in (str, str | None)]


async def refuses_nul(here: InProcessApp) -> int:
    """Send a NUL wherever text is accepted; return how many requests that were."""
    asked = 0
    for route in OPERATIONS:
        path = path_with(route, "a")
        requests: list[tuple[str, Any]] = [(f"{path}?{name}=a%00", None) for name in text_parameters(route)]
        if "{" in route.path:
            requests.append((path_with(route, "a%00"), BODIES.get(route.name, {}) if route.body else None))
        if route.body is not None:
            shared = {"actor": "a", "reason": "r"} if issubclass(route.body, Body) else {}
            whole = {**shared, **BODIES.get(route.name, {})}
            requests += [(path, body) for body in with_nul(whole)]
        for target, body in requests:
            answer = await here.call(route.method, target, body, op=f"nul-{asked}")
            assert answer.status_code == 400, (name_of(route), target, body, answer.text)
            assert answer.json()["effect"] == "none"
            asked += 1
    return asked


def test_nul_is_refused_by_every_route_on_every_engine(postgres_url: str) -> None:
    async def main(url: str) -> None:
        async with in_process_app(url) as here:
            assert await refuses_nul(here) > 200

    asyncio.run(main(postgres_url))
    asyncio.run(main("memory://"))


def test_a_backslash_before_the_letters_is_not_a_nul() -> None:
    async def main() -> None:
        async with in_process_app() as here:
            asked = {"id": "a", "total": 1, "reason": "C:\\u0000"}
            assert (await here.call("POST", "/v1/pools", asked)).status_code == 201

    asyncio.run(main())
