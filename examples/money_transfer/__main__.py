"""Start the bank: `python -m examples.money_transfer`."""

from __future__ import annotations

from examples.web import serve

from .bank import application

if __name__ == "__main__":
    serve("The bank", application, 8004)
