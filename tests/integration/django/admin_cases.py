"""What the admin shows and does. Run by `test_admin.py`, in the example project's process."""

from __future__ import annotations

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import TransactionTestCase
from django.utils.timezone import localtime

from holdkit.contrib.django import hk
from holdkit.contrib.django.templatetags.holdkit import remaining, remaining_time

HOLDS, POOLS, JOURNAL = "/admin/holdkit/hold/", "/admin/holdkit/pool/", "/admin/holdkit/journalentry/"


class Admin(TransactionTestCase):
    def setUp(self) -> None:
        self.operator = User.objects.create_superuser("root", password="secret")
        self.client.force_login(self.operator)
        hk.create_pool("show:<42>", total=5)

    def act(self, action: str, *holds: str, reason: str = "asked by phone", **fields: str) -> str:
        answer = self.client.post(HOLDS, {"action": action, "reason": reason, "hold": holds, **fields}, follow=True)
        self.assertEqual(answer.status_code, 200)
        return " ".join(str(message) for message in answer.context["messages"])

    def test_the_lists(self) -> None:
        hold = hk.hold("show:<42>", 2, ttl="5m", entity="order:<1>", actor="user:7")
        for page, texts in (
            (POOLS, ["show:&lt;42&gt;", "<td>5</td>", "<td>2</td>", "<td>3</td>"]),
            (HOLDS, [hold.id, "2 × show:&lt;42&gt;", "order:&lt;1&gt;", "user:7", "<td>4:59</td>"]),
            (f"{HOLDS}?state=held&pool=show:<42>&entity=order:<1>", [hold.id]),
            (f"{HOLDS}?state=released", ["Nothing fits."]),
            (f"{POOLS}?prefix=nothing", ["Nothing fits."]),
            (JOURNAL, ["hold.held", "pool.created", hold.id, localtime(hold.held_at).strftime("%Y-%m-%d %H:%M:%S")]),
            (f"{JOURNAL}?action=pool.created", ["pool.created"]),
            (f"{HOLDS}{hold.id}/change/", ["hold.held", "order:&lt;1&gt;", "History"]),
            (f"{HOLDS}{hold.id}/history/", ["hold.held", "order:&lt;1&gt;", "History"]),
            ("/admin/", ["Holdkit", f'"{POOLS}" class="viewlink"', f'"{HOLDS}" class="changelink"', "Journal"]),
        ):
            answer = self.client.get(page)
            self.assertEqual(answer.status_code, 200, page)
            for text in texts:
                self.assertContains(answer, text)
        self.assertNotContains(self.client.get(HOLDS), hold.token or "-")
        self.assertContains(self.client.get(f"{HOLDS}?state=nonsense"), "state")
        self.assertEqual(self.client.get(f"{HOLDS}nonsense/change/").status_code, 404)
        self.assertEqual(self.client.get(f"{POOLS}add/").status_code, 403)
        for page in (HOLDS, POOLS, JOURNAL):
            self.assertEqual(self.client.get(f"{page}{hold.id}/delete/").status_code, 403)
            self.assertEqual(self.client.post(f"{page}{hold.id}/delete/", {"post": "yes"}).status_code, 403)
        self.assertEqual(self.client.get(f"{POOLS}{hold.id}/history/").status_code, 404)
        self.assertEqual((hk.get(hold).state, hk.pool("show:<42>").held), ("held", 2))

    def test_pages(self) -> None:
        for number in range(60):
            hk.create_pool(f"p:{number:02}", total=1)
            hk.hold(f"p:{number:02}", 1, ttl=300)
        for page, inside, outside in ((POOLS, "p:49", "p:50"), (HOLDS, "p:59", "p:00"), (JOURNAL, "p:59", "p:30")):
            answer = self.client.get(page)
            self.assertContains(answer, inside)
            self.assertNotContains(answer, outside)
            following = self.client.get(page + answer.context["following"])
            self.assertContains(following, outside)

    def test_the_actions(self) -> None:
        first, second = hk.hold("show:<42>", 1, ttl="5m"), hk.hold("show:<42>", 2, ttl="5m")
        self.assertEqual(self.act("extend", first.id, by="10m"), "1 hold extended.")
        self.assertEqual(((hk.get(first).raw.deadline or 0) - (first.raw.deadline or 0)) // 1_000_000, 600)
        self.assertEqual(self.act("release", first.id, second.id), "2 holds released.")
        self.assertEqual(hk.pool("show:<42>").held, 0)
        self.assertIn("already_released", self.act("release", first.id))
        sold = hk.consume("show:<42>", 2)
        self.assertEqual(self.act("return", sold.id), "1 hold returned.")
        self.assertEqual(hk.pool("show:<42>").consumed, 0)
        due = hk.hold("show:<42>", 1, ttl="5m")
        self.assertIn("not_due", self.act("expire", due.id))
        entry = hk.history(second)[-1]
        self.assertEqual(
            (entry.action, entry.actor, entry.reason, entry.forced),
            ("hold.released", f"user:{self.operator.pk}", "asked by phone", True),
        )
        self.assertEqual(LogEntry.objects.filter(object_id=second.id).get().change_message, "released: asked by phone")
        answer = self.client.post(f"{HOLDS}{due.id}/change/", {"action": "release", "reason": "again"}, follow=True)
        self.assertContains(answer, "1 hold released.")
        self.assertEqual(hk.get(due).state, "released")

    def test_what_is_refused(self) -> None:
        hold = hk.hold("show:<42>", 1, ttl="5m")
        self.assertIn("Give a reason", self.act("release", hold.id, reason=" "))
        self.assertIn("Choose what to do", self.act("explode", hold.id))
        self.assertIn("Choose at least one", self.act("release"))
        self.assertIn("at most 100", self.act("release", *[hold.id] * 101))
        self.assertIn("by", self.act("extend", hold.id, by="soon"))
        for hostile in (hold.ticket or "", "\x00", "<b>", "x" * 9000):
            self.assertIn("128-bit id", self.act("release", hostile))
        self.assertFalse(LogEntry.objects.exists(), "a ticket that was posted is not logged")
        self.assertEqual(hk.get(hold).state, "held")

    def test_remaining_time(self) -> None:
        hold, short = hk.hold("show:<42>", 1, ttl="5m"), hk.hold("show:<42>", 1, ttl="1ms")
        while hk.get(short).state == "held":
            pass
        for given, seconds, text in (
            (hold, 299, "4:59"),
            (hold.id, 299, "4:59"),
            (hold.ticket, 299, "4:59"),
            (short, 0, "0:00"),  # as it was when it was placed
            (short.id, 0, "0:00"),
            ("0" * 32, 0, "0:00"),  # no longer kept, or never known
            (None, None, ""),
            ("", None, ""),
        ):
            self.assertEqual((remaining(given), remaining_time(given)), (seconds, text), given)

    def test_rights(self) -> None:
        hold = hk.hold("show:<42>", 1, ttl="5m")
        viewer = User.objects.create_user("viewer", password="secret", is_staff=True)
        self.client.force_login(viewer)
        for page in (POOLS, HOLDS, JOURNAL, f"{HOLDS}{hold.id}/change/"):
            self.assertEqual(self.client.get(page).status_code, 403)
        viewer.user_permissions.add(
            *Permission.objects.filter(codename__in=["view_hold", "view_pool", "view_journalentry"])
        )
        for page in (POOLS, HOLDS, JOURNAL, f"{HOLDS}{hold.id}/change/"):
            answer = self.client.get(page)
            self.assertNotContains(answer, "Reason:")
            self.assertEqual(
                self.client.post(page, {"action": "release", "reason": "x", "hold": hold.id}).status_code, 403
            )
        self.assertEqual(hk.get(hold).state, "held")
