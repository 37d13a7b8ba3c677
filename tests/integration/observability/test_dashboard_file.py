"""The Grafana dashboard is about metrics that a real server has, with labels that they have; and no metric is left out."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from holdkit.server.settings import Metrics
from tests.acceptance.docs.pages import ROOT
from tests.support.servers import QUICK, live_server

FILE = ROOT / "deploy/grafana-dashboard.json"
LEFT_OUT: set[str] = set()
"""Metrics that the dashboard does not show."""
OF_PROMETHEUS = {"instance", "le"}
"""Labels that Prometheus adds, and those of buckets."""
NOT_ON_SQLITE = {"holdkit_guarded_misses": {"cause"}}
"""Metrics that have values on PostgreSQL only, and their labels."""
SUFFIXES = ("_total", "_bucket", "_sum", "_count")


def expressions(dashboard: dict[str, Any]) -> list[str]:
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return asked + [str(one["query"]) for one in dashboard["templating"]["list"] if one["type"] == "query"]


def families() -> dict[str, Metric]:
    """The metrics of a server on a socket that has answered requests."""
    settings = replace(QUICK, metrics=Metrics(pools=("*",)))
    with live_server(settings=settings) as server, server.client() as http:
        http.post("/v1/pools", json={"id": "gpu", "total": 2}).raise_for_status()
        text = http.get("/metrics").raise_for_status().text
    return {family.name: family for family in text_string_to_metric_families(text)}


def family_name(name: str, known: set[str]) -> str:
    plain = next((name.removesuffix(one) for one in SUFFIXES if name.removesuffix(one) in known), name)
    return name if name in known else plain


def test_every_name_and_label_exists_and_every_metric_is_shown() -> None:
    found = families()
    known = {*found}
    asked = expressions(json.loads(FILE.read_text("utf-8")))
    assert len(asked) > 30
    shown: set[str] = set()
    for expression in asked:
        for name in re.findall(r"holdkit_\w+", expression):
            family = family_name(name, known)
            assert family in known, f"{name} in {expression}"
            shown.add(family)
            if found[family].type == "counter":
                assert name.endswith("_total"), f"{name}: a counter is asked for by its sample's name"
            labels = set(re.findall(r"(\w+)!?=~?\"", expression)) | {
                label for by in re.findall(r"by \(([\w, ]+)\)", expression) for label in by.split(", ")
            }
            having = {label for sample in found[family].samples for label in sample.labels}
            having |= NOT_ON_SQLITE.get(family, set()) | OF_PROMETHEUS
            assert labels <= having, f"{labels - having} of {name}"
    assert known - shown == LEFT_OUT


def test_panels_have_titles_places_and_units() -> None:
    panels = json.loads(FILE.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    for panel in panels:
        assert panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        if panel["type"] != "row":
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["targets"]


def test_the_metrics_are_all_described() -> None:
    page = (ROOT / "docs/observability.md").read_text("utf-8")
    missing = [name for name in families() if f"`{name}`" not in page and f"`{name}_total`" not in page]
    assert missing == []
