"""URLs of the project."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from .shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("shows/<int:number>/", views.show, name="show"),
    path("shows/<int:number>/left/", views.left, name="left"),
    path("shows/<int:number>/reserve/", views.reserve, name="reserve"),
    path("orders/<int:pk>/", views.order, name="order"),
    path("orders/<int:pk>/pay/", views.pay, name="pay"),
]
