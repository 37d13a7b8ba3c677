from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdkit import errors
from holdkit.faces._async.kernel import AsyncKernel
from holdkit.server import Settings
from holdkit.server.settings import Requests
from holdkit.wire.problems import problem_of
from tests.support.servers import InProcessApp, in_process_app

HOLD = {"pool": "a", "ttl": 60}


def run(work: Any, **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(**more) as here:
            await here.call("POST", "/v1/pools", {"id": "a", "total": 5})
            await work(here)

    asyncio.run(main())


def test_the_same_key_and_payload_is_the_same_answer_token_included() -> None:
    async def work(here: InProcessApp) -> None:
        first = await here.call("POST", "/v1/holds", HOLD, op="k")
        again = await here.call("POST", "/v1/holds", {"ttl": "1m", "pool": "a"}, op='"k"')
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json()["token"] == again.json()["token"]
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert (await here.call("GET", "/v1/pools/a")).json()["held"] == 1

    run(work)


@pytest.mark.parametrize("actor", [None, "user:7"])
def test_a_retry_key_is_of_no_use_to_another_access_key(actor: str | None) -> None:
    """Who reads the journal sees retry keys and actors; the recorded answer has the owner's token in it."""

    async def work(here: InProcessApp) -> None:
        theirs = await here.running.keys.make("theirs", scope="hold")
        mine = await here.running.keys.make("mine", scope="hold")
        await here.running.admission.refresh()

        async def ask(key: str, path: str, body: Any, op: str) -> Any:
            headers = {"Authorization": f"Bearer {key}"}
            return await here.call("POST", path, body, key=None, op=op, headers=headers)

        body = HOLD if actor is None else {**HOLD, "actor": actor}
        held = (await ask(theirs.text, "/v1/holds", body, "k")).json()
        batch = {"commands": [{"type": "hold", **body}]}
        (first,) = (await ask(theirs.text, "/v1/batch", batch, "b")).json()["answers"]
        seen = (await here.call("GET", "/v1/journal")).json()["items"][-1]
        spoofed = {**HOLD, "actor": seen["actor"]}
        stolen = [
            await ask(mine.text, "/v1/holds", spoofed, "k"),
            await ask(mine.text, "/v1/batch", {"commands": [{"type": "hold", **spoofed}]}, "b"),
        ]
        for answer in stolen:
            assert (answer.status_code, answer.json()["reason"]) == (422, "operation_conflict")
            assert held["token"] not in answer.text
            assert first["hold"]["token"] not in answer.text
        await here.running.keys.rotate(theirs.info.id, grace=0)
        rotated = await here.running.keys.rotate(theirs.info.id)
        await here.running.admission.refresh()
        again = await ask(rotated.text, "/v1/holds", body, "k")
        assert (again.status_code, again.json()["token"]) == (201, held["token"]), "a new secret is the same key"

    run(work)


def test_what_has_no_token_is_answered_to_any_key_of_the_tenant() -> None:
    """Another worker, with a key of its own, may go on with what the first one has begun; a token it never sees."""

    async def work(here: InProcessApp) -> None:
        keys = [(await here.running.keys.make(name, scope="admin")).text for name in ("theirs", "mine")]
        await here.running.admission.refresh()
        held = (
            await here.call("POST", "/v1/holds", {"pool": "a", "quantity": 4, "ttl": 60}, key=keys[0], op="h")
        ).json()
        claim = (
            await here.call("POST", "/v1/claims", {"type": "t", "value": "v", "ttl": 60}, key=keys[0], op="c")
        ).json()
        await here.call("POST", "/v1/items", {"ids": ["seat"]}, key=keys[0])
        token, at = {"token": held["token"]}, f"/v1/holds/{held['id']}"
        plain: list[tuple[str, str, Any]] = [
            ("POST", "/v1/pools", {"id": "b", "total": 5}),
            ("PUT", "/v1/pools/b", {"total": 6}),
            ("POST", f"{at}/confirm", token | {"quantity": 1, "keep_rest": True}),
            ("POST", f"{at}/extend", token | {"by": 5}),
            ("POST", f"{at}/release", token),
            ("POST", f"{at}/return", token | {"reason": "refund"}),
            ("POST", f"/v1/holds/{claim['id']}/confirm", {"token": claim["token"], "entity": "user:1"}),
            ("POST", "/v1/claims/free", {"type": "t", "value": "v", "reason": "closed"}),
            ("PUT", "/v1/records/notes/1", {"body": "{}"}),
            ("POST", "/v1/batch", {"commands": [{"type": "create_pool", "id": "c", "total": 1}]}),
        ]
        for n, (method, path, body) in enumerate(plain):
            first, again = [await here.call(method, path, body, key=key, op=f"plain {n}") for key in keys]
            assert first.status_code in (200, 201), first.text
            assert (again.status_code, again.headers.get("idempotency-replayed")) == (first.status_code, "true"), path
            assert held["token"] not in again.text
        for key in keys:  # its answer tells nothing, not even that it was recorded
            added = await here.call("POST", "/v1/items", {"ids": ["seat", "another"]}, key=key, op="add")
            assert added.status_code == 200, added.text
        births: list[tuple[str, Any]] = [
            ("/v1/holds", HOLD),
            ("/v1/consume", {"pool": "a"}),
            ("/v1/claims", {"type": "t", "value": "w", "ttl": 60}),
            ("/v1/items/hold", {"ids": ["seat"], "ttl": 60}),
            ("/v1/batch", {"commands": [{"type": "hold", **HOLD}]}),
        ]
        for n, (path, body) in enumerate(births):
            first, again = [await here.call("POST", path, body, key=key, op=f"birth {n}") for key in keys]
            assert first.status_code in (200, 201), first.text
            assert (again.status_code, again.json()["reason"]) == (422, "operation_conflict"), path
            retried = await here.call("POST", path, {**body, "reason": "again"} if "commands" not in body else body,
                                      key=keys[0], op=f"birth {n}")  # fmt: skip
            assert retried.headers.get("idempotency-replayed") == "true", path

    run(work)


def test_a_refusal_is_replayed_too() -> None:
    async def work(here: InProcessApp) -> None:
        for replayed in (None, "true"):
            no = await here.call("POST", "/v1/holds", {"pool": "a", "quantity": 9, "ttl": 60}, op="k")
            assert (no.status_code, no.headers.get("idempotency-replayed")) == (409, replayed)
            await here.call("PUT", "/v1/pools/a", {"total": 50})

    run(work)


def test_another_payload_or_another_route_is_422() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/holds", HOLD, op="k")
        for path, body in (("/v1/holds", {**HOLD, "quantity": 2}), ("/v1/consume", {"pool": "a"})):
            other = await here.call("POST", path, body, op="k")
            assert (other.status_code, other.json()["reason"]) == (422, "operation_conflict")
            assert other.json()["effect"] == "none"
        assert (await here.call("GET", "/v1/pools/a")).json()["held"] == 1

    run(work)


def test_keys_are_a_tenants_own() -> None:
    async def work(here: InProcessApp) -> None:
        await here.call("POST", "/v1/pools", {"id": "a", "total": 5}, tenant="acme")
        mine = await here.call("POST", "/v1/holds", HOLD, op="k")
        theirs = await here.call("POST", "/v1/holds", HOLD, op="k", tenant="acme")
        assert mine.json()["id"] != theirs.json()["id"]

    run(work)


PAIR = [
    {"type": "hold", "pool": "a", "quantity": 3, "ttl": 60},
    {"type": "hold", "pool": "a", "quantity": 3, "ttl": 60},
]


@pytest.mark.parametrize("atomic", [False, True], ids=["each", "all or none"])
def test_a_batch_is_replayed_whole(atomic: bool) -> None:
    async def work(here: InProcessApp) -> None:
        batch = {"commands": PAIR, "atomic": atomic}
        first = await here.call("POST", "/v1/batch", batch, op="k")
        await here.call("PUT", "/v1/pools/a", {"total": 50})
        again = await here.call("POST", "/v1/batch", batch, op="k")
        assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
        facts = ("status", "reason")
        assert [[one.get(fact) for fact in facts] for one in again.json()["answers"]] == [
            ["refused", "aborted"] if atomic else ["done", None],
            ["refused", "insufficient_capacity"],
        ]
        if not atomic:
            assert again.json()["answers"][0]["hold"]["token"] == first.json()["answers"][0]["hold"]["token"]
        assert (await here.call("GET", "/v1/pools/a")).json()["held"] == (0 if atomic else 3)

    run(work)


def test_another_batch_under_the_key_is_422_and_does_nothing() -> None:
    async def work(here: InProcessApp) -> None:
        small = {**PAIR[0], "quantity": 1}
        await here.call("POST", "/v1/batch", {"commands": [small]}, op="k")
        await here.call("POST", "/v1/holds", HOLD, op="one")
        for commands, atomic, key in (
            ([small, small], False, "k"),
            ([small], True, "k"),
            ([{**small, "quantity": 2}], False, "k"),
            ([{**small, "op": "own"}], False, "k"),
            ([small], False, "one"),
        ):
            other = await here.call("POST", "/v1/batch", {"commands": commands, "atomic": atomic}, op=key)
            assert (other.status_code, other.json()["reason"]) == (422, "operation_conflict"), other.text
        single = await here.call("POST", "/v1/holds", HOLD, op="k")
        assert (single.status_code, single.json()["reason"]) == (422, "operation_conflict")
        assert (await here.call("GET", "/v1/pools/a")).json()["held"] == 2
        traced = await here.call("POST", "/v1/batch", {"commands": [{**small, "correlation_id": "again"}]}, op="k")
        assert traced.headers["idempotency-replayed"] == "true"

    run(work)


def test_a_batch_is_one_commit_and_no_command_may_carry_its_key() -> None:
    async def work(here: InProcessApp) -> None:
        before = (await here.running.kernel.admin.stats()).batches
        await here.call("POST", "/v1/batch", {"commands": PAIR}, op="k")
        assert (await here.running.kernel.admin.stats()).batches == before + 1
        no = await here.call("POST", "/v1/batch", {"commands": [{**PAIR[0], "op": "j"}, *PAIR]}, op="j")
        assert (no.status_code, no.json()["field"], no.json()["code"]) == (400, "op", "op_ambiguous")

    run(work)


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "ü", "a\x7f"])
def test_a_malformed_key_is_400(key: str) -> None:
    async def work(here: InProcessApp) -> None:
        answer = await here.call("POST", "/v1/holds", HOLD, headers={"Idempotency-Key": key.encode()})
        assert (answer.status_code, answer.json()["reason"]) == (400, "idempotency_key_malformed")
        none = await here.call("POST", "/v1/holds", HOLD)
        assert (none.status_code, none.json()["reason"]) == (400, "idempotency_key_required")

    run(work)


def test_a_key_whose_request_is_being_decided_is_409(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(here: InProcessApp) -> None:
        entered, gate = asyncio.Event(), asyncio.Event()
        real = AsyncKernel.hold

        async def slow(self: AsyncKernel, *arguments: Any, **more: Any) -> Any:
            entered.set()
            await gate.wait()
            return await real(self, *arguments, **more)

        monkeypatch.setattr(AsyncKernel, "hold", slow)
        first = asyncio.create_task(here.call("POST", "/v1/holds", HOLD, op="k"))
        await entered.wait()
        second = await here.call("POST", "/v1/holds", HOLD, op="k")
        assert (second.status_code, second.json()["reason"]) == (409, "operation_running")
        assert second.headers["retry-after"] == "1"
        gate.set()
        assert (await first).status_code == 201
        third = await here.call("POST", "/v1/holds", HOLD, op="k")
        assert third.headers["idempotency-replayed"] == "true"

    run(work)


@pytest.mark.parametrize(
    ("error", "status", "effect"),
    [
        (errors.OutcomeUnknown("x"), 503, "unknown"),
        (errors.Overloaded("x", retry_after=3), 503, "none"),
        (errors.EngineError("x"), 503, "none"),
        (errors.CursorLost("x"), 410, "none"),
        (TimeoutError(), 504, "unknown"),
        (errors.PromiseBroken("x"), 500, "unknown"),
        (RuntimeError("x"), 500, "unknown"),
        (errors.InvalidRequest("x", field="f", code="c"), 400, "none"),
        *[(kind("x"), None, "none") for kind in errors.REFUSALS.values()],
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_is_not_known_to_have_done_nothing_says_so(error: Exception, status: int | None, effect: str) -> None:
    problem = problem_of(error)
    assert problem.effect == effect
    if status is None:
        assert problem.status in (403, 404, 409, 410, 412, 422, 503)
    else:
        assert problem.status == status


def test_an_answer_that_takes_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(here: InProcessApp) -> None:
        async def never(*_: Any, **__: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(AsyncKernel, "hold", never)
        answer = await here.call("POST", "/v1/holds", HOLD, op="k")
        assert (answer.status_code, answer.json()["effect"]) == (504, "unknown")

    run(work, settings=Settings(requests=Requests(timeout=0.01)))


def test_a_pool_is_resized_only_as_it_was_seen() -> None:
    async def work(here: InProcessApp) -> None:
        seen = await here.call("GET", "/v1/pools/a")
        tag = seen.headers["etag"]
        same = await here.call("GET", "/v1/pools/a", headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")
        await here.call("POST", "/v1/holds", HOLD, op="k")
        assert (await here.call("GET", "/v1/pools/a", headers={"If-None-Match": tag})).status_code == 200
        stale = await here.call("PUT", "/v1/pools/a", {"total": 9}, headers={"If-Match": tag})
        assert (stale.status_code, stale.json()["reason"]) == (412, "version_conflict")
        fresh = (await here.call("GET", "/v1/pools/a")).headers["etag"]
        done = await here.call("PUT", "/v1/pools/a", {"total": 9}, headers={"If-Match": fresh})
        assert done.json()["total"] == 9
        bad = await here.call("PUT", "/v1/pools/a", {"total": 9}, headers={"If-Match": '"x"'})
        assert (bad.status_code, bad.json()["reason"]) == (400, "if_match_malformed")
        hold = (await here.call("POST", "/v1/holds", HOLD, op="l")).json()
        no = await here.call("POST", f"/v1/holds/{hold['id']}/release", {}, op="m", headers={"If-Match": "*"})
        assert (no.status_code, no.json()["reason"]) == (400, "if_match_unsupported")

    run(work)


def test_pages_join_without_gap_or_overlap() -> None:
    async def work(here: InProcessApp) -> None:
        for n in range(7):
            await here.call("POST", "/v1/pools", {"id": f"p{n}", "total": 1})
            await here.call("POST", "/v1/holds", {"pool": f"p{n}", "ttl": 60}, op=str(n))
        for path, most in (("/v1/pools?prefix=p&limit=3", 3), ("/v1/holds?limit=3", 3), ("/v1/journal?limit=3", 3)):
            seen: list[str] = []
            after = ""
            while True:
                page = (await here.call("GET", f"{path}&after={after}" if after else path)).json()
                assert len(page["items"]) <= most
                seen += [item.get("id") or str(item["position"]) for item in page["items"]]
                if not page["next"] or not page["items"]:
                    break
                after = page["next"]
            assert len(seen) == len(set(seen)) == (15 if "journal" in path else 7)
        found = (await here.call("GET", "/v1/pools?contains=P3")).json()["items"]
        assert [pool["id"] for pool in found] == ["p3"]

    run(work)
