"""Start the shop: `python -m examples.ticket_shop`."""

from __future__ import annotations

from examples.web import serve

from .shop import application

if __name__ == "__main__":
    serve("The ticket shop", application, 8001)
