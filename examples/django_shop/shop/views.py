"""Views: reserve tickets and write the order in one transaction; pay; show what is left, from an async view too."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

import holdkit
from holdkit.contrib.django import ahk, hk

from .models import Order


def show(request: HttpRequest, number: int) -> HttpResponse:
    """The page of one show, with a form to reserve."""
    pool = hk.create_pool(f"show:{number}", total=100, exist_ok=True)
    return render(request, "shop/show.html", {"number": number, "pool": pool})


async def left(request: HttpRequest, number: int) -> JsonResponse:
    """How many tickets are left."""
    try:
        pool = await ahk.pool(f"show:{number}")
    except holdkit.errors.PoolNotFound:
        return JsonResponse({"left": 0}, status=404)
    return JsonResponse({"left": pool.available})


@require_POST
def reserve(request: HttpRequest, number: int) -> HttpResponse:
    """Hold the tickets and write the order: both or neither."""
    try:
        quantity = int(request.POST.get("quantity", "1"))
        with transaction.atomic():
            hold = hk.hold(f"show:{number}", quantity, ttl="5m")
            order = Order.objects.create(show=number, quantity=quantity, hold=hold.id, ticket=hold.ticket)
    except holdkit.InsufficientCapacity as refused:
        return JsonResponse({"left": refused.available}, status=409)
    except ValueError:  # not a number; or 0 or less, which is holdkit.InvalidRequest
        return JsonResponse({"error": "quantity"}, status=400)
    return redirect("order", pk=order.pk)


def order(request: HttpRequest, pk: int) -> HttpResponse:
    """One order, with the time that is left to pay."""
    found = get_object_or_404(Order, pk=pk)
    return render(request, "shop/order.html", {"order": found})


@require_POST
def pay(request: HttpRequest, pk: int) -> HttpResponse:
    """Confirm the hold and mark the order as paid: both or neither."""
    try:
        with transaction.atomic():
            found = get_object_or_404(Order.objects.select_for_update(), pk=pk)
            hk.confirm(found.ticket, entity=f"order:{pk}", op=f"pay:{pk}")  # op: a second click changes nothing
            found.paid = True
            found.save()
    except (holdkit.HoldExpired, holdkit.AlreadyReleased):
        return JsonResponse({"error": "too late: the tickets are for sale again"}, status=410)
    return redirect("order", pk=pk)
