"""What is clicked really happens: asked first, done once, found in the database."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

import holdkit
from holdkit.server import Settings
from holdkit.server.settings import Upkeep
from tests.integration.dashboard.browser import Api, served, watched


def test_a_hold_is_released_by_force_with_a_reason(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        hold = api.hold("gpu", 2)
        page = tab.open(f"hold/{hold['id']}")
        page.get_by_role("button", name="Release").click()
        dialog = page.get_by_role("dialog", name="Release this hold")
        dialog.get_by_role("button", name="Release").click()
        assert api.get(f"/v1/holds/{hold['id']}")["state"] == "held", "a reason is asked for"
        dialog.get_by_label("Reason").fill("the job was stuck")
        dialog.get_by_role("button", name="Release").click()
        expect(page.locator(".life-card .badge")).to_have_text("released")
        expect(page.get_by_role("status").get_by_text("Hold released.")).to_be_visible()
        expect(page.get_by_text("forced")).to_be_visible()
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        assert hk.pool("gpu").available == 8
        last = list(hk.history(hold["id"]))[-1]
        assert (last.action, last.reason, last.forced) == ("hold.released", "the job was stuck", True)


def test_escape_and_cancel_change_nothing(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        hold = api.hold("gpu", 2)
        page = tab.open(f"hold/{hold['id']}")
        for leave in ("Escape", "Cancel"):
            page.get_by_role("button", name="Release").click()
            page.get_by_label("Reason").fill("no")
            if leave == "Escape":
                page.keyboard.press("Escape")
            else:
                page.get_by_role("button", name="Cancel").click()
            expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="Release")).to_be_focused()
        assert api.get(f"/v1/holds/{hold['id']}")["state"] == "held"


def test_a_pool_is_resized_and_a_refusal_is_told_in_the_dialog(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, quiet=False) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        api.hold("gpu", 5)
        page = tab.open("pool/gpu")
        page.get_by_role("button", name="Change total").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("New total").fill("3")
        dialog.get_by_label("Reason").fill("the rack is smaller")
        dialog.get_by_role("button", name="Change").click()
        expect(dialog.get_by_role("alert")).to_contain_text("below_in_use")
        assert api.get("/v1/pools/gpu")["total"] == 8
        dialog.get_by_label("New total").fill("20")
        dialog.get_by_role("button", name="Change").click()
        expect(page.locator("[data-figure=total]")).to_have_text("20")
        assert api.get("/v1/pools/gpu")["total"] == 20
        expect(page.locator(".timeline li")).to_have_count(2)


def test_a_pool_is_made(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        page = tab.open()
        page.locator(".notice").get_by_role("button", name="New pool").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("room: 12/ä")
        dialog.get_by_label("Total").fill("4")
        dialog.get_by_label("Reason").fill("a new room")
        dialog.get_by_role("button", name="Create").click()
        page.get_by_role("link", name="room: 12/ä").click()
        expect(page.locator("[data-figure=total]")).to_have_text("4")
        assert Api(http).get("/v1/pools")["items"][0]["id"] == "room: 12/ä"


def test_a_hold_is_extended_with_its_token(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as (server, http), watched(browser, server, quiet=False) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        hold = api.hold("gpu", 2)
        page = tab.open(f"hold/{hold['id']}")
        page.get_by_role("button", name="Extend").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Token").fill("not it")
        dialog.get_by_label("Reason").fill("the owner asked by telephone")
        dialog.get_by_role("button", name="Extend").click()
        expect(dialog.get_by_role("alert")).to_contain_text("not_owner")
        dialog.get_by_label("Token").fill(hold["token"])
        dialog.get_by_role("button", name="Extend").click()
        expect(page.locator(".timeline li")).to_have_count(2)
        assert api.get(f"/v1/holds/{hold['id']}")["deadline"] > hold["deadline"]


def test_a_sweep_sweeps(browser: Browser, tmp_path: Path) -> None:
    settings = Settings(upkeep=Upkeep(key_refresh=0.05, sweep_every=0))
    with served(tmp_path, settings=settings) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        hold = api.hold("gpu", 2, ttl=0.05)
        page = tab.open(f"hold/{hold['id']}")
        expect(page.locator(".life-card .badge")).to_have_text("expired")
        assert len(api.get(f"/v1/holds/{hold['id']}/history")["items"]) == 1, "nobody wrote it down yet"
        page.keyboard.press("g")
        page.keyboard.press("h")
        page.get_by_role("button", name="Sweep now").click()
        page.get_by_role("dialog").get_by_role("button", name="Sweep").click()
        expect(page.get_by_text("1 hold expired.")).to_be_visible()
        assert [entry["action"] for entry in api.get(f"/v1/holds/{hold['id']}/history")["items"]] == [
            "hold.held",
            "hold.expired",
        ]
        page.get_by_role("button", name="Verify").click()
        page.get_by_role("dialog").get_by_role("button", name="Verify").click()
        expect(page.get_by_text("Every row matches the journal.")).to_be_visible()


def test_units_of_a_hold_that_was_confirmed_in_part_can_be_returned(browser: Browser, tmp_path: Path) -> None:
    """Whatever became of the rest. And a placed hold is told by its id, with which the command line finds it."""
    with served(tmp_path) as (server, http), watched(browser, server) as tab:
        api = Api(http)
        api.pool("gpu", 8)
        page = tab.open("pool/gpu")
        page.get_by_role("button", name="Place hold").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Units").fill("3")
        dialog.get_by_label("Reason").fill("for a guest")
        dialog.get_by_role("button", name="Place").click()
        id = dialog.get_by_label("Hold", exact=True).input_value()
        token = dialog.get_by_label("Token").input_value()
        page.get_by_role("button", name="I have stored it").click()
        api.confirm({"id": id, "token": token}, quantity=2, keep_rest=True)
        released = http.post(f"/v1/holds/{id}/release", json={"token": token}, headers={"Idempotency-Key": "r"})
        assert released.json()["state"] == "released"
        page.evaluate("id => { location.hash = '#/hold/' + id }", id)
        page.get_by_role("button", name="Return units").click()
        expect(dialog.locator("[data-effect]")).to_contain_text("2 consumed units become available again.")
        dialog.get_by_label("Reason").fill("the guest left")
        dialog.get_by_role("button", name="Return").click()
        expect(page.get_by_role("status").get_by_text("Units returned.")).to_be_visible()
        expect(page.get_by_role("button", name="Return units")).to_have_count(0)
        assert api.get("/v1/pools/gpu")["available"] == 8


def test_what_faces_hold_is_offered_what_makes_sense(browser: Browser, tmp_path: Path) -> None:
    """A claim is confirmed for somebody; what has no deadline cannot be extended."""
    with served(tmp_path) as (server, _), watched(browser, server) as tab:
        with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
            hk.items.add(["voucher"])
            voucher = hk.items.hold(["voucher"], ttl=None)
            claim = hk.claims.hold("email", "ann@example.org", ttl="1h")
        page = tab.open(f"hold/{voucher.id}")
        expect(page.get_by_role("button", name="Release")).to_be_visible()
        expect(page.get_by_role("button", name="Extend")).to_have_count(0)
        page.evaluate("id => { location.hash = '#/hold/' + id }", (claim.ticket or "").split(".")[1])
        page.get_by_role("button", name="Confirm").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("by telephone")
        dialog.get_by_role("button", name="Confirm").click()
        expect(dialog).to_be_visible()
        dialog.get_by_label("Entity").fill("user:7")
        dialog.get_by_role("button", name="Confirm").click()
        expect(page.locator(".life-card .badge")).to_have_text("confirmed")
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        assert [one.key for one in hk.claims.list(entity="user:7")] == ["email:ann@example.org"]
