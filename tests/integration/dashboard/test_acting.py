"""Everything that a person can do on the page: told before it happens, done once, journaled with the reason and the person's key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

import holdkit
from tests.integration.dashboard.browser import Api, Delivery, served, watched
from tests.integration.dashboard.test_outage import KilledServer, killable
from tests.support.servers import LiveServer

__all__ = ["killable"]


class Acting:
    """A server that the tests of this file share, each with pools of its own."""

    def __init__(self, server: LiveServer, http: httpx.Client, database: str) -> None:
        self.server, self.http, self.api, self.database = server, http, Api(http), database

    def hold(self, id: str) -> dict[str, Any]:
        return self.api.get(f"/v1/holds/{id}")

    def last(self, id: str) -> dict[str, Any]:
        """The last entry about a hold."""
        found: dict[str, Any] = self.api.get(f"/v1/holds/{id}/history")["items"][-1]
        return found

    def join(self, pool: str, quantity: int, op: str) -> dict[str, Any]:
        body = {"quantity": quantity, "ttl": 600, "offer_ttl": 600}
        found: dict[str, Any] = self.http.post(
            f"/v1/pools/{pool}/line", json=body, headers={"Idempotency-Key": op}
        ).json()
        return found


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acting]:
    folder = tmp_path_factory.mktemp("acting")
    with served(folder) as (server, http):
        yield Acting(server, http, f"sqlite:///{folder}/holds.db")


def go(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = '#/' + view }", view)


def act(page: Page, button: str, *, says: str, reason: str | None = "because", **fields: str) -> None:
    """Press a button, read what will happen, fill in the fields, and do it."""
    page.locator(".head-actions").get_by_role("button", name=button, exact=True).click()
    finish(page.get_by_role("dialog"), says=says, reason=reason, **fields)
    expect(page.get_by_role("dialog")).to_have_count(0)


def finish(dialog: Locator, *, says: str, reason: str | None = "because", **fields: str) -> None:
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " "), exact=False).fill(value)
    expect(dialog.locator("[data-effect]")).to_contain_text(says)
    if reason is not None:
        dialog.get_by_label("Reason").fill(reason)
    dialog.locator("button[type=submit]").click()


def test_every_verb_of_a_hold(browser: Browser, acting: Acting) -> None:
    api = acting.api
    api.pool("verbs", 10)
    with watched(browser, acting.server) as tab:
        page = tab.open("pool/verbs")
        page.get_by_role("button", name="Place hold").click()
        dialog = page.get_by_role("dialog", name="Place a hold")
        dialog.get_by_label("Units").fill("12")
        expect(dialog.locator("[data-effect]")).to_contain_text("It will be refused: 10 of 10 can be held.")
        finish(dialog, says="6 of 10 free units are held until", reason="for a guest", Units="6")
        secret = page.get_by_role("dialog", name="Hold placed.").get_by_label("Token")
        token = secret.input_value()
        assert token
        page.get_by_role("button", name="I have stored it").click()
        assert token not in page.content()
        assert token not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
        (hold,) = api.get("/v1/holds?pool=verbs")["items"]
        placed = acting.last(hold["id"])
        assert (placed["reason"], placed["actor"]) == ("for a guest", f"api_client:{placed['client_id']}")

        go(page, f"hold/{hold['id']}")
        act(page, "Extend", says="It expires at", Extend_by="10m", Token=token)
        assert (acting.last(hold["id"])["action"], acting.last(hold["id"])["forced"]) == ("hold.extended", False)
        act(page, "Release", says="1 unit becomes available at once.", reason="one too many", Units="1")
        assert acting.hold(hold["id"])["legs"][0]["held"] == 5
        act(page, "Confirm", says="4 units become consumed", reason="paid in cash", Units="4", Entity="order:9")
        found, last = acting.hold(hold["id"]), acting.last(hold["id"])
        assert (found["state"], found["entity"], found["legs"][0]["confirmed"]) == ("confirmed", "order:9", 4)
        assert (last["reason"], last["forced"]) == ("paid in cash", True)
        act(page, "Return units", says="3 consumed units become available again.", reason="sent back", Units="3")
        last = acting.last(hold["id"])
        assert (last["action"], last["reason"], last["forced"]) == ("hold.returned", "sent back", True)
        expect(page.locator(".timeline")).to_contain_text("sent back")
    assert api.get("/v1/pools/verbs")["consumed"] == 1


def test_what_becomes_free_is_told_with_who_is_offered_it_and_so_it_happens(browser: Browser, acting: Acting) -> None:
    api = acting.api
    api.pool("line", 12)
    hold = api.hold("line", 12)
    first, second, third, fourth = (acting.join("line", quantity, f"join-{quantity}") for quantity in (5, 2, 4, 9))
    with watched(browser, acting.server) as tab:
        page = tab.open(f"hold/{second['id']}")
        says = "Number 2 gives up its place for 2 units, and is not offered any."
        act(page, "Remove from line", says=says, reason="went home")
        last = acting.last(second["id"])
        assert (last["action"], last["reason"], last["forced"]) == ("hold.released", "went home", True)
        go(page, "pool/line")
        act(page, "Change total", says="2 more units become available.", New_total="14")
        go(page, f"hold/{hold['id']}")
        says = "12 units become available at once, and 2 people in line are offered units."
        act(page, "Release", says=says)
        assert [acting.hold(one["id"])["state"] for one in (first, third, fourth)] == ["held", "held", "waiting"]
        go(page, "pool/line")
        says = "The 1 person in line is offered nothing more."
        act(page, "Archive", says=says, reason="the show is over")
        expect(page.locator("[data-archived]")).to_be_visible()
        expect(page.get_by_role("button", name="Place hold")).to_have_count(0)
        act(page, "Unarchive", says="It grants holds again: 5 units are available.")
        expect(page.locator("[data-archived]")).to_have_count(0)
        page.get_by_role("button", name="Remove", exact=True).click()
        dialog = page.get_by_role("dialog", name="Remove this pool")
        expect(dialog.locator("[data-effect]")).to_contain_text(
            "It will be refused: 9 units are in use, and 1 person waits in line."
        )
        page.keyboard.press("Escape")
        api.pool("spare", 1)
        go(page, "pool/spare")
        act(page, "Remove", says="It is removed for good.", reason="not needed")
        expect(page.locator("h1")).to_have_text("Pools")
    assert acting.http.get("/v1/pools/spare").status_code == 404
    (gone,) = api.get("/v1/journal?order=newest&subject=spare&action=pool.removed")["items"]
    assert gone["reason"] == "not needed"


def test_a_hold_is_released_with_the_keyboard_only(browser: Browser, acting: Acting) -> None:
    acting.api.pool("keys", 3)
    hold = acting.api.hold("keys", 3)
    with watched(browser, acting.server) as tab:
        page = tab.open(f"hold/{hold['id']}")
        expect(page.get_by_role("button", name="Release")).to_be_visible()
        page.evaluate("document.querySelector('main').focus()")
        press_until(page, "Tab", lambda: focused(page) == "Release")
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Release this hold")
        expect(dialog.locator("[data-effect]")).to_contain_text("3 units become available at once.")
        press_until(page, "Tab", lambda: dialog.get_by_label("Reason").evaluate("at => at === document.activeElement"))
        page.keyboard.type("by hand")
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        expect(page.locator(".life-card .badge")).to_have_text("released")
    assert acting.last(hold["id"])["reason"] == "by hand"


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.textContent")
    return text


def press_until(page: Page, key: str, there: Callable[[], bool]) -> None:
    for _ in range(40):
        if there():
            return
        page.keyboard.press(key)
    raise AssertionError("the keyboard does not reach it")


def test_a_double_click_acts_once_and_a_stale_view_gets_the_words_of_the_refusal(
    browser: Browser, acting: Acting
) -> None:
    acting.api.pool("twice", 9)
    with watched(browser, acting.server, quiet=False) as tab:
        page = tab.open("pool/twice")
        page.get_by_role("button", name="Place hold").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("twice")
        expect(dialog.locator("[data-effect]")).to_be_visible()
        dialog.locator("button[type=submit]").dblclick()
        page.get_by_role("button", name="I have stored it").click()
        (hold,) = acting.api.get("/v1/holds?pool=twice")["items"]
        go(page, f"hold/{hold['id']}")
        page.get_by_role("button", name="Confirm").click()
        dialog.get_by_label("Reason").fill("late")
        body = {"force": True, "reason": "sooner"}
        headers = {"Idempotency-Key": "sooner"}
        acting.http.post(f"/v1/holds/{hold['id']}/release", json=body, headers=headers).raise_for_status()
        dialog.get_by_role("button", name="Confirm").click()
        expect(dialog.get_by_role("alert")).to_contain_text("already_released")
        expect(dialog.get_by_role("alert")).to_contain_text("Nothing was changed.")


def test_a_key_is_offered_what_it_may_do_and_no_more(browser: Browser, acting: Acting) -> None:
    acting.api.pool("mine", 4)
    hold = acting.api.hold("mine", 2)
    with watched(browser, acting.server, quiet=False) as tab:
        page = tab.open(f"hold/{hold['id']}", key=acting.server.key("hold"))
        page.get_by_role("button", name="Confirm").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("mine")
        dialog.get_by_role("button", name="Confirm").click()
        assert acting.hold(hold["id"])["state"] == "held", "the token is asked for"
        page.keyboard.press("Escape")
        go(page, "pool/mine")
        expect(page.locator(".head-actions button")).to_have_text(["Place hold"])
    with acting.server.client(acting.server.key("hold")) as http:
        body = {"force": True, "reason": "no"}
        refused = http.post(f"/v1/holds/{hold['id']}/confirm", json=body, headers={"Idempotency-Key": "no"})
        assert (refused.status_code, refused.json()["reason"]) == (403, "scope_too_small")


def test_an_outage_in_the_middle_of_an_action_tells_nothing_false(browser: Browser, killable: KilledServer) -> None:
    server = killable.start()
    with server.client() as http:
        api = Api(http)
        api.pool("gpu", 4)
        hold = api.hold("gpu", 3)
    with watched(browser, server, quiet=False) as tab:
        page = tab.open(f"hold/{hold['id']}")
        page.get_by_role("button", name="Release").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("[data-effect]")).to_contain_text("3 units become available at once.")
        dialog.get_by_label("Reason").fill("in a storm")

        def lost(route: Route) -> None:
            """The server does it, and is killed before its answer arrives."""
            route.fetch()
            killable.kill()
            route.abort()

        page.route("**/release", lost, times=1)
        dialog.get_by_role("button", name="Release").click()
        said = dialog.locator("[data-unknown]")
        expect(said).to_contain_text("Unknown: the server cannot be reached.")
        expect(said).to_contain_text("may or may not have been made")
        expect(page.get_by_text("Hold released.")).to_have_count(0)
        dialog.get_by_role("button", name="Release").click()  # nobody there: still unknown
        expect(said).to_contain_text("Unknown: the server cannot be reached.")
        dialog.get_by_role("button", name="Look").click()
        expect(page.get_by_role("status").filter(has_text="the outcome is unknown")).to_be_visible()
        killable.start()
        expect(page.locator(".life-card .badge")).to_have_text("released")
        expect(page.locator(".timeline li")).to_have_count(2)
    with server.client() as http:
        story = Api(http).get(f"/v1/holds/{hold['id']}/history")["items"]
        assert [entry["action"] for entry in story] == ["hold.held", "hold.released"]
    assert all(re.search("ERR_|Failed to", said) for said in tab.complaints), tab.complaints


def test_another_attempt_after_a_lost_answer_is_the_same_operation(browser: Browser, acting: Acting) -> None:
    acting.api.pool("again", 9)
    with watched(browser, acting.server, quiet=False) as tab:
        page = tab.open("pool/again")

        def lost(route: Route) -> None:
            route.fetch()
            route.abort()

        page.route("**/v1/holds", lost, times=1)
        for reason in ("first", "second"):  # the dialog is closed meanwhile, and another reason is given
            page.get_by_role("button", name="Place hold").click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Reason").fill(reason)
            dialog.locator("button[type=submit]").click()
            if reason == "first":
                expect(dialog.locator("[data-unknown]")).to_be_visible()
                page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Hold placed.").get_by_label("Token")).to_be_visible()
    (hold,) = acting.api.get("/v1/holds?pool=again")["items"]
    assert acting.last(hold["id"])["reason"] == "first"


def test_a_parked_saga_runs_again_and_shows_its_timeline(browser: Browser, acting: Acting) -> None:
    acting.api.pool("seat", 5)
    with holdkit.connect(acting.database) as hk, pytest.raises(holdkit.errors.SagaParked):
        hk.sagas.register(Delivery()).run("order/1", {"fails": "the line went dead"})
    with watched(browser, acting.server) as tab:
        page = tab.open("sagas")
        card = page.locator(".saga").filter(has_text="order/1")
        card.get_by_text("Timeline").click()
        expect(card.locator(".timeline li").last).to_contain_text("the line went dead")
        card.get_by_role("button", name="Run again").click()
        dialog = page.get_by_role("dialog", name="Run this saga again")
        expect(dialog.locator("[data-effect]")).to_contain_text("It holds 1 unit of seat.")
        finish(dialog, says="Its effect may run once more", reason="the line works")
        expect(page.get_by_text("The saga is finalizing again.")).to_be_visible()
        last = card.locator(".timeline li").last
        expect(last).to_contain_text("the line works")
        expect(last).to_contain_text("finalizing")
        expect(last).to_contain_text("api_client:")
