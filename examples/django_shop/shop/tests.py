"""The shop's tests, as a project writes them: nothing in them knows how Holdkit is tested."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.db import transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase
from django.test.testcases import DatabaseOperationForbidden

import holdkit
from holdkit.contrib.django import ahk, hk

from .models import Order


class Shopping(TestCase):
    """Each test in a transaction that Django rolls back."""

    @classmethod
    def setUpTestData(cls) -> None:
        """Once for the class."""
        hk.create_pool("show:42", total=3)

    def reserve(self, quantity: int) -> Order:
        answer = self.client.post("/shows/42/reserve/", {"quantity": quantity})
        self.assertEqual(answer.status_code, 302, answer.content)
        order: Order = Order.objects.latest("pk")
        return order

    def test_reserve_and_pay(self) -> None:
        order = self.reserve(2)
        self.assertEqual(hk.pool("show:42").held, 2)
        self.assertContains(self.client.get(f"/orders/{order.pk}/"), "Reserved for <time>4:59</time>", html=False)
        for _ in range(2):  # a second click changes nothing
            self.assertEqual(self.client.post(f"/orders/{order.pk}/pay/").status_code, 302)
        self.assertContains(self.client.get(f"/orders/{order.pk}/"), "Paid.")
        self.assertEqual(hk.pool("show:42").consumed, 2)
        self.assertEqual(hk.get(order.hold).entity, f"order:{order.pk}")

    def test_too_many(self) -> None:
        answer = self.client.post("/shows/42/reserve/", {"quantity": 4})
        self.assertEqual((answer.status_code, answer.json()), (409, {"left": 3}))
        for quantity in ("0", "-1", "many", ""):
            self.assertEqual(self.client.post("/shows/42/reserve/", {"quantity": quantity}).status_code, 400)
        self.assertFalse(Order.objects.exists())
        self.reserve(1)

    def test_released_before_it_was_paid(self) -> None:
        order = self.reserve(1)
        hk.admin.release(order.hold, reason="asked by phone")
        self.assertEqual(self.client.post(f"/orders/{order.pk}/pay/").status_code, 410)
        self.assertContains(self.client.get(f"/orders/{order.pk}/"), "has expired")

    def test_nothing_is_left_of_the_other_tests(self) -> None:
        self.assertEqual((hk.pool("show:42").held, hk.pool("show:42").consumed), (0, 0))
        self.assertEqual(len(hk.holds()), 0)

    def test_rolled_back_together(self) -> None:
        def fail() -> None:
            with transaction.atomic():
                hk.hold("show:42", 1, ttl=60)
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual(hk.pool("show:42").held, 0)

    def test_blocks(self) -> None:
        with hk.holding("show:42", 1, ttl=60):
            self.assertEqual(hk.pool("show:42").held, 1)
        self.assertEqual(hk.pool("show:42").consumed, 1)
        with hk.lease("show:42", 1, ttl=60) as lease:
            lease.check()
        self.assertEqual(hk.pool("show:42").held, 0)

    def test_claims(self) -> None:
        claim = hk.claims.hold("email", "a@example.com", ttl=300)
        with self.assertRaises(holdkit.AlreadyClaimed):
            hk.claims.hold("email", "a@example.com", ttl=300)
        hk.confirm(claim, entity="user:1")

    def test_after_commit(self) -> None:
        hk.hold("show:42", 3, ttl=60)
        waiting = hk.join("show:42", 1, ttl=600, offer_ttl=60)
        self.assertEqual(hk.place(waiting), 1)

    async def test_async(self) -> None:
        hold = await ahk.hold("show:42", 1, ttl=60)
        answer = await self.async_client.get("/shows/42/left/")
        self.assertEqual(answer.json(), {"left": 2})
        async with ahk.holding("show:42", 1, ttl=60):
            self.assertEqual((await ahk.pool("show:42")).held, 2)
        self.assertEqual((await ahk.get(hold)).state, "held")
        await ahk.claims.hold("email", "a@example.com", ttl=300)
        self.assertTrue(await ahk.claims.is_taken("email", "a@example.com"))
        both = await ahk.hold([holdkit.claim("name", "ann"), holdkit.Leg("show:42", 1)], ttl=60)
        self.assertEqual(len(both.legs), 2)
        acme = ahk.tenant("acme")
        await acme.create_pool("show:42", total=7)
        self.assertEqual((await acme.pool("show:42")).available, 7)
        self.assertEqual((await ahk.admin.limits()).retention.days, 30)
        self.assertEqual((await sync_to_async(hk.pool)("show:42")).held, 2)


class CalculatingOnly(SimpleTestCase):
    """Tests that may not use a database may not use the kernel either: nothing would remove what they write."""

    def test_refused(self) -> None:
        """By Django, also if tests before this one have opened the kernel."""
        with self.assertRaises(DatabaseOperationForbidden):
            hk.create_pool("show:43", total=3)


class Committing(TransactionTestCase):
    """Each test commits, and Django empties the tables."""

    def test_committed_together(self) -> None:
        hk.create_pool("show:42", total=3)
        with transaction.atomic():
            hold = hk.hold("show:42", 1, ttl=60)
            Order.objects.create(show=42, quantity=1, hold=hold.id, ticket=hold.ticket)
        self.assertEqual(hk.pool("show:42").held, 1)
        self.assertEqual([entry.action for entry in hk.history(hold)], ["hold.held"])
        hk.release(hold)
        with hk.lease("show:42", 1, ttl=60) as lease:
            lease.check()
            self.assertEqual(hk.pool("show:42").held, 1)
        self.assertTrue(hk.admin.verify().ok)

    def test_empty_again(self) -> None:
        self.assertEqual((hk.pools(), hk.journal.list()), ([], []))
        self.assertTrue(hk.admin.verify().ok)

    def test_what_an_open_transaction_cannot_keep(self) -> None:
        hk.create_pool("show:42", total=3)
        for call in (lambda: hk.lease("show:42", 1, ttl=60), lambda: hk.hold("show:42", 1, ttl=60, wait="5s")):
            with self.assertRaises(holdkit.InvalidRequest), transaction.atomic():
                call()
