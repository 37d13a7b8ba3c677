"""Signing secrets: encrypted at rest under the server's secret, bound to their webhook, rotated with overlap; and where a webhook
may lead, checked when it is created."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from holdkit.core.model import SECOND
from holdkit.core.reading import FindRecord, ReadHistory, entry_of
from holdkit.server.keys import read_key
from holdkit.server.settings import Settings, Upkeep, Webhooks
from holdkit.server.webhooks.hooks import HOOKS
from holdkit.server.webhooks.sealing import Sealer, SecretUnreadable
from holdkit.testing import FakeClock
from tests.support.receivers import Receivers, receivers
from tests.support.servers import NOON, InProcessApp, in_process_app
from tests.support.threads import PATIENCE

PEPPER, OTHER = b"p" * 32, b"q" * 32
SETTINGS = Settings(upkeep=Upkeep(sweep_every=0), webhooks=Webhooks(pauses=(0.0,), allowed=frozenset(["127.0.0.1"])))


def test_a_sealed_secret_opens_for_its_tenant_its_webhook_and_its_server_only() -> None:
    sealed = Sealer(PEPPER).seal("acme", "hook", "whsec_secret")
    assert "secret" not in sealed.removeprefix("sealed1:")
    assert Sealer(PEPPER).open("acme", "hook", sealed) == "whsec_secret"
    assert Sealer(PEPPER).seal("acme", "hook", "whsec_secret") != sealed, "the same secret looks different each time"
    for sealer, tenant, hook, stored in (
        (Sealer(OTHER), "acme", "hook", sealed),
        (Sealer(None), "acme", "hook", sealed),
        (Sealer(PEPPER), "rival", "hook", sealed),
        (Sealer(PEPPER), "acme", "other", sealed),
        (Sealer(PEPPER), "acm", "ehook", sealed),
        (Sealer(PEPPER), "acme", "hook", sealed[:-4]),
        (Sealer(PEPPER), "acme", "hook", "sealed1:"),
        (Sealer(PEPPER), "acme", "hook", "sealed1:?"),
    ):
        with pytest.raises(SecretUnreadable, match="HOLDKIT_SERVER_SECRET"):
            sealer.open(tenant, hook, stored)
    assert Sealer(PEPPER).open("acme", "hook", "whsec_plain") == "whsec_plain", (
        "stored before there was a server secret"
    )


async def make(here: InProcessApp, there: Receivers) -> dict[str, Any]:
    made = await here.call("POST", "/v1/webhooks", {"url": there.url("/hook"), "actions": ["pool.created"]})
    assert made.status_code == 201, made.text
    return dict(made.json())


async def stored(here: InProcessApp, id: str) -> str:
    row = await here.running.kernel._executor.read(FindRecord(("", HOOKS, id)))
    assert row is not None
    return row.body


async def shown(here: InProcessApp, id: str, done: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await here.call("GET", f"/v1/webhooks/{id}")).json()
            if done(found):
                return dict(found)


@pytest.mark.parametrize("pepper", [PEPPER, None])
def test_with_a_server_secret_the_database_does_not_have_the_signing_secret(pepper: bytes | None) -> None:
    async def main() -> None:
        async with receivers() as there, in_process_app(settings=SETTINGS, pepper=pepper) as here:
            hook = await make(here, there)
            plain = hook["secret"].removeprefix("whsec_") in await stored(here, hook["id"])
            assert plain == (pepper is None)
            assert hook["encrypted"] == (pepper is not None)
            await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
            await there.until(lambda: there.subjects("/hook") == ["a"])

    asyncio.run(main())


@pytest.mark.parametrize("pepper", [OTHER, None])
def test_a_changed_server_secret_stops_only_what_needs_it_and_says_what_to_do(
    tmp_path: Path, pepper: bytes | None
) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        async with receivers() as there:
            async with in_process_app(url, settings=SETTINGS, pepper=PEPPER) as here:
                hook = await make(here, there)
            async with in_process_app(url, settings=SETTINGS, pepper=pepper) as here:
                stopped = await shown(here, hook["id"])
                assert stopped["state"] == "stopped"
                assert "HOLDKIT_SERVER_SECRET" in stopped["why"]
                assert "rotate" in stopped["why"]
                assert (await here.call("GET", "/v1/webhooks")).status_code == 200
                for verb in ("test", "replay"):
                    refused = await here.call("POST", f"/v1/webhooks/{hook['id']}/{verb}")
                    assert (refused.status_code, refused.json()["reason"]) == (409, "secret_unreadable")
                assert (await here.call("POST", "/v1/pools", {"id": "a", "total": 1})).status_code == 201
                other = await make(here, there)
                await here.call("POST", "/v1/pools", {"id": "b", "total": 1})
                await there.until(lambda: there.subjects("/hook") == ["b"])
                assert there.taken[0][1]["webhook-id"].startswith(other["id"]), "another webhook is delivered"
            there.taken.clear()
            async with in_process_app(url, settings=SETTINGS, pepper=PEPPER) as here:  # the former one again
                await there.until(lambda: set(there.subjects("/hook")) >= {"a", "b"})
                assert (await shown(here, hook["id"]))["state"] == "active"

    asyncio.run(main())


def test_rotating_heals_a_webhook_whose_secret_is_lost(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"

    async def main() -> None:
        async with receivers() as there:
            async with in_process_app(url, settings=SETTINGS, pepper=PEPPER) as here:
                hook = await make(here, there)
            async with in_process_app(url, settings=SETTINGS, pepper=OTHER) as here:
                rotated = await here.call("POST", f"/v1/webhooks/{hook['id']}/rotate")
                assert (rotated.status_code, rotated.json()["state"]) == (200, "active")
                assert "old_secret_until" not in rotated.json(), "nobody can sign with the old one"
                await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
                await there.until(lambda: there.subjects("/hook") == ["a"])

    asyncio.run(main())


class Bodies:
    """A receiver that keeps headers and bodies as they came."""

    def __init__(self) -> None:
        self.taken = asyncio.Queue[tuple[dict[str, str], bytes]]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in head[1:]) if value}
        self.taken.put_nowait((headers, await reader.readexactly(int(headers["content-length"]))))
        writer.write(b"HTTP/1.1 204 X\r\n\r\n")
        writer.close()


def signs(secret: str, taken: tuple[dict[str, str], bytes]) -> bool:
    headers, body = taken
    try:
        Webhook(secret).verify(body, {**headers, "webhook-timestamp": headers["webhook-timestamp"]})
    except WebhookVerificationError:
        return False
    return True


def test_during_the_grace_of_a_rotation_both_secrets_verify_then_only_the_new_one() -> None:
    async def main() -> None:
        clock, bodies = FakeClock(start=int(time.time()) * SECOND), Bodies()
        server = await asyncio.start_server(bodies.serve, "127.0.0.1", 0)
        target = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

        async def event(here: InProcessApp, name: str) -> tuple[dict[str, str], bytes]:
            await here.call("POST", "/v1/pools", {"id": name, "total": 1})
            async with asyncio.timeout(PATIENCE):
                return await bodies.taken.get()

        async with server, in_process_app(settings=SETTINGS, pepper=PEPPER, clock=clock) as here:
            made = await here.call("POST", "/v1/webhooks", {"url": target, "actions": ["pool.created"]})
            id, old = made.json()["id"], made.json()["secret"]
            assert signs(old, await event(here, "a"))
            rotated = await here.call("POST", f"/v1/webhooks/{id}/rotate", {"grace": "30s"})
            new = rotated.json()["secret"]
            assert new != old
            assert "old_secret_until" in rotated.json()
            assert old not in (await here.call("GET", "/v1/webhooks")).text
            both = await event(here, "b")
            assert both[0]["webhook-signature"].count("v1,") == 2
            assert (signs(old, both), signs(new, both)) == (True, True)
            clock.advance(30)
            after = await event(here, "c")
            assert after[0]["webhook-signature"].count("v1,") == 1
            assert (signs(old, after), signs(new, after)) == (False, True)
            at_once = (await here.call("POST", f"/v1/webhooks/{id}/rotate", {"grace": 0})).json()
            last = await event(here, "d")
            assert (signs(new, last), signs(at_once["secret"], last)) == (False, True)
            for grace in (-1, "31d", "x"):
                refused = await here.call("POST", f"/v1/webhooks/{id}/rotate", {"grace": grace})
                assert (refused.status_code, refused.json()["field"]) == (400, "grace")

    asyncio.run(main())


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.2.0.1/",
        "https://[fec0::1]/",
        "https://2130706433/",
        "https://localhost/",
        "https://does-not-exist.invalid/",
        "http://93.184.216.34/",
        "http://does-not-exist.invalid/",
    ],
)
def test_a_target_that_may_not_be_called_is_refused_when_the_webhook_is_created(url: str) -> None:
    """In the same words, whether the name is unknown or known inside only: else a tenant could ask for the names of our network."""

    async def main() -> None:
        async with in_process_app(settings=Settings(upkeep=Upkeep(sweep_every=0))) as here:
            refused = await here.call("POST", "/v1/webhooks", {"url": url})
            assert (refused.status_code, refused.json()["code"]) == (400, "url_not_allowed")
            assert refused.json()["detail"] == (
                "url: cannot be called: the URL must use https, and its host name must lead to public addresses; the server's settings "
                "can allow hosts and networks"
            )
            assert (await here.call("GET", "/v1/webhooks")).json()["items"] == []

    asyncio.run(main())


def test_a_network_of_the_settings_may_be_called() -> None:
    async def main() -> None:
        inside = Settings(upkeep=Upkeep(sweep_every=0), webhooks=Webhooks(networks=frozenset(["127.0.0.0/8"])))
        async with receivers() as there, in_process_app(settings=inside) as here:
            await make(here, there)
            await here.call("POST", "/v1/pools", {"id": "a", "total": 1})
            await there.until(lambda: there.subjects("/hook") == ["a"])
            refused = await here.call("POST", "/v1/webhooks", {"url": "https://10.0.0.1/"})
            assert json.loads(refused.text)["code"] == "url_not_allowed"

    asyncio.run(main())


def test_a_tenant_has_a_share_of_webhooks() -> None:
    async def main() -> None:
        few = Settings(
            upkeep=Upkeep(sweep_every=0), webhooks=Webhooks(tenant_hooks=2, networks=frozenset(["127.0.0.0/8"]))
        )
        async with receivers() as there, in_process_app(settings=few, clock=lambda: NOON) as here:
            for _ in range(2):
                await make(here, there)
            body = {"url": there.url("/hook")}
            refused = await here.call("POST", "/v1/webhooks", body)
            assert (refused.status_code, refused.json()["code"]) == (400, "webhooks_too_many")
            assert (await here.call("POST", "/v1/webhooks", body, tenant="other")).status_code == 201

    asyncio.run(main())


def test_every_change_of_a_webhook_has_its_actor_and_reason() -> None:
    async def work() -> None:
        async with receivers() as there, in_process_app(settings=SETTINGS) as here:
            asked = {"url": there.url("/hook"), "actions": ["pool.created"], "reason": "for the till"}
            id = (await here.call("POST", "/v1/webhooks", asked)).json()["id"]
            path = f"/v1/webhooks/{id}"
            await here.call("POST", f"{path}/rotate", {"reason": "leaked", "actor": "user:7"})
            assert (await here.call("POST", f"{path}/replay", {"reason": "it answers again"})).status_code == 202
            assert (await here.call("DELETE", path, {"reason": "closed"})).status_code == 200
            rows = await here.running.kernel._executor.read(ReadHistory("", f"{HOOKS}/{id}"))
            key = f"api_client:{(read_key(await here.key('admin')) or ('',))[0]}"
            assert [(one.reason, one.actor) for one in map(entry_of, rows)] == [
                ("for the till", key),
                ("leaked", "user:7"),
                ("it answers again", key),
                ("closed", key),
            ]

    asyncio.run(work())
