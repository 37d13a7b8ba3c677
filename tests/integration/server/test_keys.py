from __future__ import annotations

import asyncio
import logging
from hmac import compare_digest
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.core.reading import ReadHistory, entry_of
from holdkit.server import Keys
from holdkit.server.keys import StoredKey, admits, hash_secret, read_key
from holdkit.testing import FakeClock
from tests.support.servers import InProcessApp, in_process_app
from tests.support.threads import PATIENCE

PEPPER = b"p" * 32


def run(work: Any, **more: Any) -> None:
    async def main() -> None:
        async with in_process_app(**more) as here:
            await work(here)

    asyncio.run(main())


def test_a_key_has_256_secret_bits_and_is_shown_once() -> None:
    with holdkit.connect("memory://") as hk:
        keys = Keys(hk, pepper=PEPPER)
        made = keys.make("till", scope="hold")
        id, secret = read_key(made.text) or ("", "")
        assert id == made.info.id
        assert len(secret) == 43  # 256 bits in base64
        assert secret not in repr(made)
        kept = str(keys.stored())
        assert secret not in kept
        assert hash_secret(id, secret, PEPPER) in kept
        assert hash_secret(id, secret, b"q" * 32) not in kept, "the hash must be keyed"
        assert secret not in str(keys.listed())
        assert keys.make("till").text != made.text


def test_only_the_right_secret_of_a_key_that_counts_is_admitted() -> None:
    stored = hash_secret("a" * 16, "right", PEPPER)
    key = StoredKey(id="a" * 16, scope="read", name="n", secret_hash=stored, made_at=0, expires_at=100)
    assert admits(key, stored, 99)
    assert not admits(key, stored, 100)
    assert not admits(key, hash_secret("a" * 16, "wrong", PEPPER), 50)
    assert not admits(None, "0" * 64, 50), "the dummy is no key"


def test_secrets_are_compared_in_constant_time_also_for_keys_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(one: str, other: str) -> bool:
        seen.append(1)
        return compare_digest(one, other)

    monkeypatch.setattr("holdkit.server.keys.compare_digest", counted)
    key = StoredKey(id="a" * 16, scope="read", name="n", secret_hash="f" * 64, made_at=0)
    admits(key, "0" * 64, 0)
    known = len(seen)
    admits(None, "0" * 64, 0)
    assert known == len(seen) - known == 2


def test_a_rotated_key_keeps_its_id_and_its_old_secret_for_a_grace() -> None:
    clock = FakeClock()

    async def work(here: InProcessApp) -> None:
        admin = await here.key("admin")
        id = (read_key(admin) or ("", ""))[0]
        answer = await here.call("POST", f"/v1/keys/{id}/rotate", {"grace": 60})
        fresh = answer.json()["key"]
        assert fresh != admin
        assert fresh.startswith(f"hk_{id}_")
        for text in (admin, fresh):
            assert (await here.call("GET", "/v1/pools", key=text)).status_code == 200
        clock.advance(60)
        assert (await here.call("GET", "/v1/pools", key=admin)).status_code == 401
        assert (await here.call("GET", "/v1/pools", key=fresh)).status_code == 200

    run(work, clock=clock)


def test_a_revoked_key_is_refused_at_once() -> None:
    async def work(here: InProcessApp) -> None:
        made = (await here.call("POST", "/v1/keys", {"name": "till", "scope": "hold", "ttl": "1h"})).json()
        assert (await here.call("GET", "/v1/pools", key=made["key"])).status_code == 200
        gone = await here.call("DELETE", f"/v1/keys/{made['info']['id']}")
        assert gone.json()["state"] == "revoked"
        assert (await here.call("GET", "/v1/pools", key=made["key"])).status_code == 401
        again = await here.call("POST", f"/v1/keys/{made['info']['id']}/rotate", {})
        assert again.json()["code"] == "key_revoked"
        listed = (await here.call("GET", "/v1/keys")).json()["items"]
        assert {one["name"]: one["state"] for one in listed}["till"] == "revoked"
        assert made["key"].split("_", 2)[2] not in str(listed)

    run(work)


def test_a_key_that_is_known_is_not_hashed_again_and_still_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known key is looked up by a digest: nothing of the secret is kept, and no refresh is needed for its end to count."""
    clock, hashed = FakeClock(), list[str]()

    def counted(id: str, secret: str, pepper: bytes) -> str:
        hashed.append(id)
        return hash_secret(id, secret, pepper)

    monkeypatch.setattr("holdkit.server.admission.hash_secret", counted)

    async def work(here: InProcessApp) -> None:
        short, spaced = await here.key("read", ttl=60), f"  {await here.key('hold')} "
        for text in (short, short, spaced, spaced.strip()):
            answer = await here.http.get("/v1/whoami", headers={"Authorization": f"Bearer {text}"})
            assert answer.status_code == 200
        assert len(hashed) == 2, "each key once"
        known = here.running.admission._known
        assert len(known) == 2
        assert not any(text.strip().split("_", 2)[2] in repr([*known, *known.values()]) for text in (short, spaced))
        monkeypatch.setattr(here.running.admission.directory, "refresh", None)
        clock.advance(59.9)
        assert (await here.call("GET", "/v1/whoami", key=short)).status_code == 200
        clock.advance(0.1)
        assert (await here.call("GET", "/v1/whoami", key=short)).status_code == 401
        assert (await here.call("GET", "/v1/whoami", key="hk_" + "a" * 16 + "_" + "b" * 43)).status_code == 401
        assert len(known) == 2, "what is refused is not remembered"

    run(work, clock=clock)


def test_a_key_made_by_another_process_counts_soon(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holds.db'}"

    async def work(here: InProcessApp) -> None:
        with holdkit.connect(url) as hk:
            made = Keys(hk).make("elsewhere", scope="read")
        async with asyncio.timeout(PATIENCE):
            while (await here.call("GET", "/v1/pools", key=made.text)).status_code != 200:
                await here.http.get("/readyz")

    run(work, url=url)


def test_the_pepper_is_made_once_and_one_from_outside_keeps_forgers_out() -> None:
    with holdkit.connect("memory://") as hk:
        made = Keys(hk).make("a")
        id, secret = read_key(made.text) or ("", "")
        (stored,) = Keys(hk).stored()
        assert admits(stored, hash_secret(id, secret, Keys(hk).pepper()), 0)
        assert not admits(stored, hash_secret(id, secret, PEPPER), 0)
        with pytest.raises(holdkit.InvalidRequest, match="pepper"):
            Keys(hk, pepper=b"short")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 129}, "name"),
        ({"name": "n", "scope": "root"}, "scope"),
        ({"name": "n", "tenant": "t" * 65}, "tenant"),
        ({"name": "n", "ttl": 0}, "ttl"),
        ({"name": "n", "ttl": "99999d"}, "ttl"),
    ],
)
def test_what_a_key_cannot_be(arguments: dict[str, Any], field: str) -> None:
    with holdkit.connect("memory://") as hk:
        with pytest.raises(holdkit.InvalidRequest) as no:
            Keys(hk).make(**arguments)
        assert no.value.field == field
        assert Keys(hk).listed() == []


def test_keys_can_neither_be_read_nor_written_nor_followed_by_callers() -> None:
    async def work(here: InProcessApp) -> None:
        admin = await here.key("admin")
        id = (read_key(admin) or ("", ""))[0]
        (stored,) = await here.running.keys.stored()
        for path in (
            "/v1/journal",
            f"/v1/pools/~key%2F{id}/history",
            f"/v1/holds/~key%2F{id}/history",
            f"/v1/pools/~key%2F{id}",
            "/v1/pools?prefix=~",
        ):
            answer = await here.call("GET", path)
            assert stored.secret_hash not in answer.text, path

    run(work)


def test_no_key_is_ever_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)

    async def work(here: InProcessApp) -> None:
        admin = await here.key("admin")

        async def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("secret detail")

        monkeypatch.setattr(type(here.running.kernel), "create_pool", broken)
        answer = await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
        assert (answer.status_code, answer.json()["effect"]) == (500, "unknown")
        assert "secret detail" not in answer.text
        assert "Traceback" not in answer.text
        assert answer.json()["request_id"] in caplog.text
        metrics = await here.call("GET", "/metrics")
        for text in (caplog.text, metrics.text, answer.text):
            assert admin.split("_", 2)[2] not in text

    run(work)


def test_a_key_that_was_written_is_not_denied_because_it_was_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server goes away between the two commits of a change: `EngineError` would say that nothing happened."""
    with holdkit.connect("memory://") as hk:
        keys = Keys(hk, pepper=PEPPER)
        made = keys.make("till", scope="hold")
        engine = hk._executor.engine
        apply, commits = engine.apply, iter(range(100))

        def fails_after_the_first(*arguments: Any, **options: Any) -> Any:
            if next(commits):
                raise holdkit.errors.EngineError("the server is gone")
            return apply(*arguments, **options)

        monkeypatch.setattr(engine, "apply", fails_after_the_first)
        assert keys.revoke(made.info.id).state == "revoked"
        assert next(commits) == 2, "the count was asked for"
        assert [each.state for each in keys.listed()] == ["revoked"]


def test_a_retry_makes_no_second_key_and_every_change_has_its_actor_and_reason() -> None:
    clock = FakeClock()

    async def work(here: InProcessApp) -> None:
        asked = {"name": "till", "scope": "hold", "reason": "a new till"}
        first = (await here.call("POST", "/v1/keys", asked, op="m")).json()
        again = await here.call("POST", "/v1/keys", {**asked, "reason": "asked again"}, op="m")
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
        made, id = again.json(), first["info"]["id"]
        assert made["info"]["id"] == id
        assert (await here.call("GET", "/v1/pools", key=first["key"])).status_code == 401, "it is replaced"
        assert (await here.call("GET", "/v1/pools", key=made["key"])).status_code == 200
        other = await here.call("POST", "/v1/keys", {**asked, "scope": "read"}, op="m")
        assert (other.status_code, other.json()["reason"]) == (422, "operation_conflict")
        theirs = (await here.call("POST", "/v1/keys", asked, op="m", tenant="acme")).json()
        assert theirs["info"]["id"] != id, "operation ids of tenants are apart"

        lost = (await here.call("POST", f"/v1/keys/{id}/rotate", {"grace": 60, "reason": "leaked"}, op="r")).json()
        got = (await here.call("POST", f"/v1/keys/{id}/rotate", {"grace": 60, "reason": "leaked"}, op="r")).json()
        counts = [(await here.call("GET", "/v1/pools", key=one["key"])).status_code for one in (made, lost, got)]
        assert counts == [200, 401, 200], "the retry leaves the old secret its grace"
        gone = await here.call("DELETE", f"/v1/keys/{id}", {"reason": "closed", "actor": "user:7"}, op="d")
        assert gone.json()["state"] == "revoked"
        after = await here.call("POST", "/v1/keys", asked, op="m")
        assert after.json()["code"] == "key_revoked"
        listed = (await here.call("GET", "/v1/keys")).json()["items"]
        assert [one["state"] for one in listed if one["name"] == "till"] == ["revoked"]
        told = [entry_of(row) for row in await here.running.kernel._executor.read(ReadHistory("", f"~key/{id}"))]
        admin = (read_key(await here.key("admin")) or ("",))[0]
        assert [(one.reason, one.actor) for one in told] == [
            ("a new till", f"api_client:{admin}"),
            ("asked again", f"api_client:{admin}"),
            ("leaked", f"api_client:{admin}"),
            ("leaked", f"api_client:{admin}"),
            ("closed", "user:7"),
        ]

    run(work, clock=clock)


def test_when_a_key_was_used_is_known_here_at_once_and_elsewhere_when_it_is_stored() -> None:
    clock = FakeClock(start=1_000_000_000_000_000)

    async def work(here: InProcessApp) -> None:
        made = (await here.call("POST", "/v1/keys", {"name": "till", "scope": "read"})).json()
        use, keys, id = here.running.admission.use, here.running.keys, made["info"]["id"]

        async def told() -> str | None:
            listed = (await here.call("GET", "/v1/keys")).json()["items"]
            found: dict[str, str | None] = {one["id"]: one["used_at"] for one in listed}
            return found[id]

        async def elsewhere() -> int | None:
            (found,) = [one for one in await keys.listed() if one.id == id]
            return None if found.used_at is None else round(found.used_at.timestamp())

        assert await told() is None
        await here.call("GET", "/v1/pools", key=made["key"])
        assert await told() == "2001-09-09T01:46:40.000000Z"
        assert await elsewhere() is None
        existing = here.running.admission.directory.keys
        await use.store(existing)
        assert await elsewhere() == 1_000_000_000
        version = (await here.call("GET", "/v1/cursor")).json()["cursor"]
        clock.advance(60)
        await here.call("GET", "/v1/pools", key=made["key"])
        await use.store(existing)
        assert (await here.call("GET", "/v1/cursor")).json()["cursor"] == version, "a minute later is no news"
        assert await told() == "2001-09-09T01:47:40.000000Z"
        clock.advance(900)
        await here.call("GET", "/v1/pools", key=made["key"])
        await use.store(existing)
        assert await elsewhere() == 1_000_000_960
        await use.store({})
        assert use.noted == {}, "what is gone is forgotten"

    run(work, clock=clock)
