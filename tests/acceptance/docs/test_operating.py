"""The alert rules are about metrics that exist, every alert has its section in the runbook, and every setting is described."""

from __future__ import annotations

import asyncio
import re
from tempfile import TemporaryDirectory
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from holdkit.engines.durability import LEVELS
from holdkit.server.configuration import SETTINGS
from holdkit.server.reasons import REASONS
from tests.acceptance.docs.pages import ROOT, prose
from tests.support.servers import in_process_app
from tools import gen_settings

RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
RUNBOOK = ROOT / "docs/operating.md"


def exposed() -> str:
    """The metrics of a server that has answered a request."""

    async def main(url: str) -> str:
        async with in_process_app(url) as here:
            await here.call("GET", "/v1/pools")
            return (await here.call("GET", "/metrics")).text

    with TemporaryDirectory() as folder:  # a disk is watched
        return asyncio.run(main(f"sqlite:///{folder}/holds.db"))


def test_every_rule_is_about_metrics_and_outcomes_that_there_are() -> None:
    assert len(RULES) > 5
    metrics = exposed()
    named = {name for rule in RULES for name in re.findall(r"holdkit_\w+", rule["expr"])}
    assert len(named) > 5
    assert [name for name in named if name not in metrics] == []
    known: dict[str, set[str]] = {"job": {"holdkit"}, "level": {*LEVELS}, "outcome": {*REASONS, "delivered"}}
    for rule in RULES:
        for label, values in re.findall(r"(\w+)!?=~?\"([^\"]+)\"", rule["expr"]):
            assert set(values.split("|")) <= known[label], rule["alert"]


def test_every_alert_has_its_section_in_the_runbook_and_no_other() -> None:
    sections = re.findall(r"^### (\w+)$", prose(RUNBOOK), re.MULTILINE)
    assert sections == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/operating.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_the_tables_of_settings_and_limits_are_current() -> None:
    assert gen_settings.main(["--check"]) == 0
    named = re.findall(r"^\| `([\w.]+)` \|", gen_settings.settings_table(), re.MULTILINE)
    assert named == list(SETTINGS)
    assert gen_settings.limits_table().count("\n") == 19 + 2
