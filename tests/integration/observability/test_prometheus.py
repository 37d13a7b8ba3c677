"""Metrics for Prometheus: of embedded kernels, and of the pools that an allow-list names, never of others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import holdkit
from holdkit.contrib.prometheus import KernelCollector
from holdkit.kernel.measures import MOST_NAMES, MOST_POOLS, AllowedPools, allowed_pools
from holdkit.server.settings import Metrics
from tests.support.kernels import Store
from tests.support.servers import QUICK, in_process_app


def gauges(text: str, name: str) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["tenant"], sample.labels["pool"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"holdkit_pool_{name}"
    }


def scraped(hk: Any, *pools: str) -> str:
    registry = CollectorRegistry()
    registry.register(KernelCollector(hk, pools=pools))
    return generate_latest(registry).decode()


def test_the_counters_of_a_kernel_and_chosen_pools(store: Store) -> None:
    hk = store.hk
    for pool in ("gpu", "room-1", "room-2", "secret"):
        hk.create_pool(pool, 4)
    hk.tenant("acme").create_pool("gpu", 9)
    hk.consume("gpu", 1)
    hk.hold("gpu", 2, ttl=60)
    hk.join("room-1", 4, ttl=60, offer_ttl=5)
    hk.join("room-1", 1, ttl=60, offer_ttl=5)
    text = scraped(hk, "gpu", "room-*", "missing", "acme::gpu")
    assert gauges(text, "total") == {("", "gpu"): 4, ("", "room-1"): 4, ("", "room-2"): 4, ("acme", "gpu"): 9}
    assert gauges(text, "held") == {("", "gpu"): 2, ("", "room-1"): 4, ("", "room-2"): 0, ("acme", "gpu"): 0}
    assert gauges(text, "consumed")["", "gpu"] == 1
    assert gauges(text, "available") == {("", "gpu"): 1, ("", "room-1"): 0, ("", "room-2"): 4, ("acme", "gpu"): 9}
    assert gauges(text, "waiting")["", "room-1"] == 1
    assert "secret" not in text
    assert "holdkit_pools_incomplete 0.0" in text
    assert "holdkit_batch_commands_sum" in text
    store.clock.advance(60)
    assert gauges(scraped(hk, "gpu"), "held")["", "gpu"] == 0, "as a reader sees it: units are free at the deadline"


def test_without_an_allow_list_no_pool_is_a_label_and_a_closed_kernel_has_no_metrics() -> None:
    hk = holdkit.connect("memory://")
    hk.create_pool("gpu", 4)
    assert "gpu" not in scraped(hk)
    assert "holdkit_pool" not in scraped(hk)
    hk.close()
    assert scraped(hk, "gpu") == ""


def test_more_pools_than_the_bound_are_left_out_and_that_is_told() -> None:
    with holdkit.connect("memory://") as hk:
        hk.apply([holdkit.commands.CreatePool(id=f"p{number:04d}", total=1) for number in range(MOST_POOLS)])
        assert "holdkit_pools_incomplete 0.0" in scraped(hk, "p*")
        hk.create_pool("p9999", 1)
        text = scraped(hk, "p*")
        assert len(gauges(text, "total")) == MOST_POOLS
        assert "holdkit_pools_incomplete 1.0" in text


def test_an_allow_list_is_checked_when_it_is_given() -> None:
    assert allowed_pools(["a", "a", "b*", "t::c", "::x::y", "*"]) == (
        AllowedPools("", "a", False),
        AllowedPools("", "b", True),
        AllowedPools("t", "c", False),
        AllowedPools("", "x::y", False),
        AllowedPools("", "", True),
    )
    for wrong in (["~claims"], ["~*"], ["a*b"], ["t::"], [""], [7], ["a"] * (MOST_NAMES + 1), ["x" * 2_000]):
        with pytest.raises(holdkit.InvalidRequest):
            allowed_pools(wrong)  # type: ignore[arg-type]


def test_a_server_shows_the_pools_of_its_setting() -> None:
    async def main() -> tuple[str, str]:
        settings = replace(QUICK, metrics=Metrics(pools=("gpu", "acme::room-*")))
        async with in_process_app(settings=settings) as here:
            for tenant, pool in (("", "gpu"), ("", "room-0"), ("acme", "room-1"), ("acme", "gpu")):
                await here.call("POST", "/v1/pools", {"id": pool, "total": 4}, tenant=tenant)
            text = (await here.call("GET", "/metrics")).text
            denied = await here.call("GET", "/metrics", tenant="acme")
            return text, denied.json()["reason"]

    text, denied = asyncio.run(main())
    assert gauges(text, "available") == {("", "gpu"): 4, ("acme", "room-1"): 4}
    assert denied == "operator_only"
