"""A checkout that holds a unit while the customer pays, and a payment webhook that ends it.

Shows: the stock is a row of the shop's own table, read inside the transaction that takes the hold; the payment carries the
ticket to another process; the webhook may arrive twice, late, or never. Run it: `python examples/checkout_slot.py`.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import NewType

import holdkit
from holdkit import Actor, ReleaseReason, Resource

ProductId = NewType("ProductId", str)


class Stock(Resource[ProductId, None]):
    """Units of a product, as the shop's own table counts them."""

    kind = "inventory.unit"

    def capacity(self, tx: sqlite3.Connection, key: ProductId, window: None) -> int:
        """The stock, sold or not."""
        del window
        row = tx.execute("select stock from products where id = ?", (key,)).fetchone()
        return 0 if row is None else int(row[0])


class Shop:
    """The web application: one kernel for the whole process."""

    def __init__(self, file: Path) -> None:
        self.hk = holdkit.connect(f"sqlite:///{file}")
        self.stock = self.hk.resource(Stock())
        with sqlite3.connect(file) as tables:
            tables.execute("create table products (id text primary key, stock integer not null)")
            tables.execute("insert into products values ('lamp', 1)")
        tables.close()

    def checkout(self, user: str, product: ProductId, request: str) -> str:
        """Hold one unit for fifteen minutes; the returned ticket goes into the payment's metadata."""
        hold = self.stock.hold(product, ttl="15m", actor=Actor.user(user), correlation_id=request, op=request)
        return hold.ticket

    def webhook(self, event: str, ticket: str, delivery: str) -> str:
        """`payment_intent.succeeded` or `payment_intent.payment_failed`. Delivered at least once: `op` makes that harmless."""
        actor = Actor.api_client("payments")
        try:
            if event == "payment_intent.succeeded":
                return self.hk.confirm(ticket, actor=actor, op=delivery).state
            return self.hk.release(ticket, reason=ReleaseReason.PAYMENT_FAILED, actor=actor, op=delivery).state
        except holdkit.HoldExpired:
            return "expired"  # the payment came too late: refund it, or call `consume`, which takes available units


def main() -> None:
    """One lamp, two customers."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder) / "shop.db")
        lamp = ProductId("lamp")
        first = shop.checkout("7", lamp, "request-1")
        assert shop.checkout("7", lamp, "request-1") == first  # the browser sent it twice
        try:
            shop.checkout("8", lamp, "request-2")
        except holdkit.InsufficientCapacity as refused:
            print(f"sold out: {refused.available} of {refused.total}")
        print(shop.webhook("payment_intent.payment_failed", first, "event-1"))
        second = shop.checkout("8", lamp, "request-3")
        print(shop.webhook("payment_intent.succeeded", second, "event-2"))
        print(shop.webhook("payment_intent.succeeded", second, "event-2"))
        shop.hk.close()


if __name__ == "__main__":
    main()
