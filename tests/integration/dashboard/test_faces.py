"""Claims, items and sagas, as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import holdkit
from holdkit.core.model import SECOND
from holdkit.testing.clock import FakeClock
from tests.integration.dashboard.browser import Api, Delivery, served, watched


def test_claims_are_listed_found_and_followed(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        page = tab.open("claims")
        expect(page.get_by_text("No claims yet")).to_be_visible()
        made: list[dict[str, Any]] = []
        for n in range(3):
            body = {"type": "email", "value": f"u{n}@example.org", "ttl": 300}
            made.append(http.post("/v1/claims", json=body, headers={"Idempotency-Key": f"c{n}"}).json())
        rows = page.get_by_role("list", name="Claims").get_by_role("listitem")
        expect(rows).to_have_count(3)
        done = {"token": made[1]["token"], "entity": "user:7"}
        http.post(f"/v1/holds/{made[1]['id']}/confirm", json=done, headers={"Idempotency-Key": "done"})
        expect(rows.filter(has_text="u1@example.org")).to_contain_text("confirmed")
        page.get_by_role("searchbox").fill("user:7")
        expect(rows).to_have_count(1)
        page.get_by_role("searchbox").fill("email:u2@example.org")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("u2@example.org")
        page.get_by_role("searchbox").fill("email:nobody")
        expect(page.get_by_text("No matching claim")).to_be_visible()
        page.get_by_role("searchbox").fill("user:7")
        rows.get_by_role("link").click()
        expect(page.locator("h1")).to_have_text(made[1]["id"])


def test_items_are_available_held_or_spent(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        http.post("/v1/items", json={"ids": ["seat:a1", "seat:a2", "seat:a3", "voucher:1"]})
        page = tab.open("items")
        items = page.get_by_role("list", name="Items").get_by_role("listitem")
        expect(items).to_have_count(4)
        taken = http.post(
            "/v1/items/hold", json={"ids": ["seat:a2"], "ttl": 60}, headers={"Idempotency-Key": "r"}
        ).json()
        expect(items.nth(1)).to_have_attribute("data-state", "held")
        page.get_by_role("searchbox").fill("voucher")
        expect(items).to_have_count(1)
        page.get_by_role("searchbox").fill("seat:a2, seat:a9")
        expect(items.nth(1)).to_have_attribute("data-state", "missing")
        items.nth(0).get_by_role("link").click()
        expect(page.locator("h1")).to_have_text(taken["id"])


def test_sagas_and_what_is_stuck(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        Api(http).pool("seat", 5)
        with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
            deliveries = hk.sagas.register(Delivery())
            deliveries.run("order:1", {"what": "this"})
            deliveries.begin("order:2", {"what": "that"})
            with pytest.raises(holdkit.HoldkitError):
                deliveries.run("order:3", {"fails": "<b>the card was refused</b>"})
        page = tab.open("sagas")
        cards = page.locator(".saga")
        expect(cards).to_have_count(3)
        expect(cards.nth(0)).to_contain_text("parked")
        expect(cards.nth(1)).to_contain_text("done")
        expect(cards.nth(2)).to_contain_text("reserving")
        expect(page.get_by_text("1 stuck saga")).to_be_visible()
        page.get_by_role("button", name="Stuck").click()
        expect(cards).to_have_count(1)
        expect(cards).to_contain_text("order:3")
        expect(cards).to_contain_text("ValueError <b>the card was refused</b>")
        cards.get_by_role("link", name="hold").click()
        expect(page.locator(".life-card .badge")).to_have_text("held")


def test_sagas_beyond_the_first_hundred_can_be_seen(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
            deliveries = hk.sagas.register(Delivery())
            for number in range(101):
                deliveries.begin(f"order:{number:03}", {"what": "this"})
        page = tab.open("sagas")
        expect(page.locator(".saga")).to_have_count(100)
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(".saga").filter(has_text="order:100")).to_be_visible()


def test_a_saga_shows_when_it_ended_whenever_that_was(browser: Browser, tmp_path: Path) -> None:
    """Not when the page was opened, nor when it was last written about: it ended a day and an hour after it began."""
    begun = datetime(2026, 1, 10, 9, 15, 30, tzinfo=UTC)
    clock, hour = FakeClock(start=int(begun.timestamp()) * SECOND), 3_600
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db", clock=clock) as hk:
        hk.create_pool("seat", 5)
        deliveries = hk.sagas.register(Delivery())
        deliveries.begin("order:1", {"what": "this"})
        clock.advance(25 * hour)
        assert hk.sagas.recover().done == 1
        clock.advance(7 * hour)
        hk.sagas.recover()
    with served(tmp_path, clock=clock) as (server, _), watched(browser, server, timezone_id="UTC") as tab:
        page = tab.open("sagas")
        told = "ended 11 Jan 2026, 10:15:30 · started 10 Jan 2026, 09:15:30"
        expect(page.locator(".saga")).to_contain_text(told)


def test_a_stuck_saga_is_ended_by_hand_with_a_reason(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        Api(http).pool("seat", 5)
        with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
            deliveries = hk.sagas.register(Delivery())
            for id in ("order/1", "order/2"):
                with pytest.raises(holdkit.errors.SagaParked):
                    deliveries.run(id, {"fails": "the line went dead"})
        page = tab.open("sagas")
        first, second = (page.locator(".saga").filter(has_text=id) for id in ("order/1", "order/2"))
        first.get_by_role("button", name="Mark as completed").click()
        dialog = page.get_by_role("dialog", name="Mark this saga as completed")
        dialog.get_by_role("button", name="Mark as completed").click()
        assert Api(http).get("/v1/sagas/order%2F1")["phase"] == "parked", "a reason is asked for"
        dialog.get_by_label("Reason").fill("the bank has it")
        dialog.get_by_role("button", name="Mark as completed").click()
        expect(page.get_by_text("The saga is done.")).to_be_visible()
        expect(first.locator(".badge")).to_have_text("done")
        expect(first).to_contain_text("Ended by an operator: the bank has it")
        expect(first.get_by_role("button")).to_have_count(0)
        second.get_by_role("button", name="Cancel saga").click()
        dialog = page.get_by_role("dialog", name="Cancel this saga")
        dialog.get_by_label("Reason").fill("the bank knows nothing of it")
        dialog.get_by_role("button", name="Back").click()
        assert Api(http).get("/v1/sagas/order%2F2")["phase"] == "parked"
        second.get_by_role("button", name="Cancel saga").click()
        dialog.get_by_label("Reason").fill("the bank knows nothing of it")
        dialog.get_by_role("button", name="Cancel saga").click()
        expect(second.locator(".badge")).to_have_text("aborted")
        expect(page.get_by_text("stuck saga")).to_have_count(0)
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        pool = hk.pool("seat")
        assert (pool.held, pool.consumed) == (0, 1)
        reasons = ["the bank has it", "the bank knows nothing of it"]
        assert [saga.resolved for saga in hk.sagas.list()] == reasons
        assert [list(hk.history(saga.hold or ""))[-1].reason for saga in hk.sagas.list()] == reasons
        assert hk.admin.verify().ok


def test_a_key_that_may_only_hold_is_offered_no_way_to_end_a_saga(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        Api(http).pool("seat", 5)
        with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk, pytest.raises(holdkit.errors.SagaParked):
            hk.sagas.register(Delivery()).run("order:1", {"fails": "the line went dead"})
        key = http.post("/v1/keys", json={"name": "desk", "scope": "hold"}).json()["key"]
        page = tab.open("sagas", key=key)
        expect(page.locator(".saga")).to_contain_text("parked")
        expect(page.locator(".saga").get_by_role("button")).to_have_count(0)
