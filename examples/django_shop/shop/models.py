"""Orders, each with the hold that keeps its tickets."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """Tickets for one customer: reserved until paid, or until the hold expires."""

    show = models.PositiveIntegerField()
    quantity = models.PositiveIntegerField()
    ticket = models.CharField(max_length=200)
    """The hold's ticket: id and token in one text, with which the payment confirms it."""
    hold = models.CharField(max_length=32, unique=True)
    paid = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk}: {self.quantity} for show {self.show}"
