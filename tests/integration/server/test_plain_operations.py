"""The operations whose handlers follow from the table: their fields are the method's parameters, and what they need beyond their scope."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from operator import attrgetter
from typing import Any

import holdkit
from holdkit.operations import OPERATIONS, Operation
from holdkit.server.handlers.plain import arguments_of
from holdkit.testing import FakeClock
from holdkit.wire.batches import DOCUMENTS
from holdkit.wire.holds import HoldNow, Taking
from tests.integration.server.test_authorization_matrix import BODIES, name_of, path_of
from tests.integration.server.test_costs import FROZEN, charged, refill
from tests.support.servers import NOON, QUICK, InProcessApp, in_process_app

PLAIN = [operation for operation in OPERATIONS if operation.calls]
BESIDE = {"tx", "op", "actor", "correlation_id", "reason"}
"""What every call takes: the first is for kernels of one's own process, the others are in every body, or headers."""
NOT_SENT = {
    "consume": {"quantity"},  # goes with the one pool of `what`
}
"""Other parameters that a request does not have."""
NUMBERS = count()


def play(work: Callable[[InProcessApp], Coroutine[Any, Any, None]], settings: Any = QUICK) -> None:
    async def main() -> None:
        async with in_process_app(settings=settings, clock=FakeClock(start=NOON)) as here:
            await here.call("POST", "/v1/pools", {"id": "gpu", "total": 50})
            await here.call("POST", "/v1/pools", {"id": "room", "total": 50})
            await work(here)

    asyncio.run(main())


def methods() -> Iterator[tuple[Operation, Any]]:
    """Each plain operation with the methods that it may call."""
    with holdkit.connect("memory://") as hk:
        for operation in PLAIN:
            yield operation, attrgetter(operation.calls)(hk)
            forcing = operation.body is not None and "force" in operation.body.__struct_fields__
            if forcing and not operation.calls.startswith("admin."):
                yield operation, attrgetter(operation.calls)(hk.admin)


def test_the_fields_of_a_plain_operation_are_the_parameters_of_its_method() -> None:
    seen = 0
    for operation, method in methods():
        parameters = [
            one.name for one in inspect.signature(method).parameters.values() if one.kind is not one.VAR_KEYWORD
        ]
        subjects = operation.path.count("{") or (operation.body is not None and issubclass(operation.body, Taking))
        sent = {*arguments_of(operation)} | ({"if_version"} if operation.precondition else set())
        assert sent == {*parameters[subjects:]} - BESIDE - NOT_SENT.get(operation.name, set()), operation.name
        assert operation.calls in operation.methods, operation.name
        seen += 1
    assert seen > 20


def test_what_only_an_operator_calls_needs_scope_admin() -> None:
    operators = {one.name: one.scope for one in PLAIN if one.calls.startswith("admin.") and one.changes}
    assert len(operators) > 5
    assert {name for name, scope in operators.items() if scope != "admin"} == {"expire"}, "anybody may ask for it"


def test_an_answer_has_the_token_if_and_only_if_the_operation_placed_the_hold() -> None:
    assert {one.name for one in OPERATIONS if one.answer is HoldNow and one.status == 201} == {
        *("hold", "consume", "join", "budget_hold", "budget_consume", "claim", "hold_items", "hold_seats")
    }

    async def work(here: InProcessApp) -> None:
        hold = await placed(here, {"pool": "gpu", "quantity": 3, "ttl": 60})
        assert hold["token"]
        for name in ("extend", "confirm", "return"):
            body = {**BODIES.get(name, {}), "token": hold["token"], **({"quantity": 1} if name != "extend" else {})}
            answer = await here.call("POST", f"/v1/holds/{hold['id']}/{name}", body, op=f"t{next(NUMBERS)}")
            assert answer.status_code == 200
            assert not {"token", "ticket"} & answer.json().keys()

    play(work)


def test_a_total_for_a_new_pool_needs_scope_admin() -> None:
    async def work(here: InProcessApp) -> None:
        leg = {"legs": [{"pool": "new", "create_with_total": 9}]}
        taking = [one for one in OPERATIONS if one.body is not None and issubclass(one.body, Taking)]
        assert {one.name for one in taking} == {"hold", "consume"}
        for operation in taking:
            body = {**leg, "ttl": 60} if operation.name == "hold" else leg
            refused = await here.call("POST", operation.path, body, op=f"t{next(NUMBERS)}", key="hold")
            assert (refused.status_code, refused.json()["reason"]) == (403, "scope_too_small"), operation.name
        for verb in ("hold", "consume"):
            batch: Any = {"commands": [{"type": verb, **leg, **({"ttl": 60} if verb == "hold" else {})}]}
            refused = await here.call("POST", "/v1/batch", batch, op=f"t{next(NUMBERS)}", key="hold")
            assert (refused.status_code, refused.json()["reason"]) == (403, "scope_too_small"), verb
        assert (await here.call("GET", "/v1/pools/new")).status_code == 404

    play(work)


def test_a_command_of_a_batch_needs_the_scope_of_its_own_route() -> None:
    needed = {one.name: one.scope for one in OPERATIONS}

    async def work(here: InProcessApp) -> None:
        refused = 0
        for verb in DOCUMENTS:
            command = {"type": verb, "id": "gpu", **BODIES.get(verb, {})}
            answer = await here.call("POST", "/v1/batch", {"commands": [command]}, op=f"t{next(NUMBERS)}", key="hold")
            too_small = answer.status_code == 403 and answer.json()["reason"] == "scope_too_small"
            assert too_small == (needed[verb] == "admin"), verb
            refused += too_small
        assert refused == 7

    play(work)


def test_a_hold_in_the_path_is_named_by_its_ticket_and_charged_by_its_legs() -> None:
    naming = [one for one in PLAIN if "{hold}" in one.path]
    assert {one.name for one in naming} == {"confirm", "release", "extend", "expire", "return", "reassign"}

    async def work(here: InProcessApp) -> None:
        for operation in naming:
            hold = await placed(here, {"legs": [{"pool": "gpu"}, {"pool": "room"}], "ttl": 60})
            ticket = {"holdkit-ticket": hold["ticket"]}
            if operation.name == "return":
                path = f"/v1/holds/{hold['id']}/confirm"
                assert (await here.call("POST", path, {"token": hold["token"]}, op=f"t{next(NUMBERS)}")).is_success
            refill(here)
            answer = await here.call(
                "POST", path_of(operation, {"hold": "-"}), BODIES.get(operation.name, {}), op=f"t{next(NUMBERS)}", key="hold",
                headers=ticket,
            )  # fmt: skip
            if operation.name == "expire":
                assert (answer.status_code, answer.json()["reason"]) == (409, "not_due")
            else:
                assert answer.status_code == 200, answer.text
                assert charged(here) == 2, operation.name

    play(work, FROZEN)


def test_force_is_journaled_and_needs_a_reason() -> None:
    async def work(here: InProcessApp) -> None:
        forcing = [one for one in PLAIN if one.body is not None and "force" in one.body.__struct_fields__]
        assert {one.name for one in forcing} == {"consume", "confirm", "release", "extend", "return", "reassign"}
        for operation in forcing:
            ids = {"hold": (await placed(here, {"pool": "gpu", "ttl": 60}))["id"], "pool": "gpu"}
            if operation.name == "return":
                forced = {"force": True, "reason": "paid"}
                assert (
                    await here.call("POST", f"/v1/holds/{ids['hold']}/confirm", forced, op=f"t{next(NUMBERS)}")
                ).is_success
            body = {**BODIES.get(operation.name, {}), "force": True, "reason": None}
            body |= {"pool": "gpu"} if operation.name == "consume" else {}
            silent = await here.call(operation.method, path_of(operation, ids), body, op=f"t{next(NUMBERS)}")
            assert (silent.status_code, silent.json()["code"]) == (400, "reason_required"), operation.name
            answer = await here.call(
                operation.method, path_of(operation, ids), {**body, "reason": "by hand"}, op=f"t{next(NUMBERS)}"
            )
            assert answer.is_success, (operation.name, answer.text)
            last = (await here.call("GET", "/v1/journal?last=1")).json()["items"][-1]
            assert (last["forced"], last["reason"]) == (True, "by hand"), operation.name

    play(work)


def test_a_precondition_is_the_version_of_if_match() -> None:
    conditional = [one for one in OPERATIONS if one.precondition]
    assert {one.name for one in conditional} == {"resize_pool", "limit_pool"}
    assert all(one.calls for one in conditional)

    async def work(here: InProcessApp) -> None:
        for operation in conditional:
            for tag, status in (('"7.0"', 412), ("nonsense", 400), ("*", 200)):
                answer = await here.call(
                    operation.method,
                    path_of(operation, {"pool": "gpu"}),
                    BODIES[operation.name],
                    headers={"if-match": tag},
                )
                assert answer.status_code == status, (name_of(operation), tag)
        tag = (await here.call("GET", "/v1/pools/gpu")).headers["etag"]
        assert (await here.call("GET", "/v1/pools/gpu", headers={"if-none-match": tag})).status_code == 304

    play(work)


async def placed(here: InProcessApp, body: Any) -> Any:
    answer = await here.call("POST", "/v1/holds", body, op=f"t{next(NUMBERS)}")
    assert answer.status_code == 201, answer.text
    return answer.json()
