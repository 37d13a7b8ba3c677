"""A lamp shop with Flask and SQLAlchemy: an order and the lamps that it holds are written in one transaction.

Shows: `hk`, the kernel for the request at hand; a session's transaction as `tx=`; refusals that are answered by themselves; pools
that are created when a worker opens its kernel. Run it: `flask --app examples/flask_shop.py run`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any
from uuid import uuid4

from flask import Flask, abort, request
from sqlalchemy import Engine, ForeignKey, create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import holdkit
from holdkit.contrib.flask import Holdkit, hk

URL = os.environ.get("HOLDKIT_URL", "sqlite:///lamps.db")


class Base(DeclarativeBase):
    """The shop's own tables, in the same file as Holdkit's."""


class Order(Base):
    """What a customer wants, and the hold on it."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    lamps: Mapped[int]
    ticket: Mapped[str]


class Payment(Base):
    """One per order."""

    __tablename__ = "payments"
    order: Mapped[str] = mapped_column(ForeignKey("orders.id"), primary_key=True)


engine: Engine = create_engine(URL)
os.register_at_fork(before=engine.dispose)  # on SQLite, a child must not inherit open connections


@event.listens_for(engine, "connect")
def set_up(connection: Any, _record: Any) -> None:
    """As docs/transactions.md says for SQLite: Holdkit runs the checkpoints of the file, and SQLAlchemy begins its transactions."""
    connection.isolation_level = None
    connection.execute("pragma wal_autocheckpoint = 0")


@event.listens_for(engine, "begin")
def begin(connection: Any) -> None:
    """With the write lock."""
    connection.exec_driver_sql("begin immediate")


def open_shop(kernel: holdkit.Kernel) -> None:
    """In each worker, when its kernel is opened. Of several, one creates the pool."""
    Base.metadata.create_all(engine)
    with suppress(holdkit.errors.PoolExists):
        kernel.create_pool("lamp", total=10)


def create_app() -> Flask:
    """The application."""
    app = Flask(__name__)
    Holdkit(app, URL, on_open=open_shop, actor=lambda: f"user:{request.headers.get('X-Customer', 'unknown')}")

    @app.post("/orders/<int:lamps>")
    def order(lamps: int) -> dict[str, str]:
        """The hold and the order: both or neither."""
        id = uuid4().hex
        with Session(engine) as session, session.begin():
            hold = hk.hold("lamp", lamps, ttl="15m", tx=session)
            session.add(Order(id=id, lamps=lamps, ticket=hold.ticket))
        return {"order": id}

    @app.post("/orders/<id>/payment")
    def pay(id: str) -> dict[str, str]:
        """The lamps are sold, and the payment is noted: both or neither."""
        with Session(engine) as session, session.begin():
            found = session.get(Order, id) or abort(404)
            sold = hk.confirm(found.ticket, entity=f"order:{id}", tx=session)
            session.add(Payment(order=id))
        return {"state": sold.state}

    @app.get("/lamps")
    def lamps() -> dict[str, int]:
        return {"available": hk.pool("lamp").available}

    return app
