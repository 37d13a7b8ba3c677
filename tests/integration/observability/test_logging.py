"""The convention of log records: every call of ours names its event and fields, as docs/observability.md lists them."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import holdkit
from holdkit.testing import FakeClock
from tests.support.threads import wait_until

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/observability.md").read_text("utf-8")
LOGGERS = {"holdkit", "holdkit.server", "holdkit.contrib"}
LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}
"""Of the methods that are used; nothing is logged below INFO."""
METHODS = {*LEVELS, "debug", "critical", "log", "warn", "fatal"}
RESERVED = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
ERRORS = {"failed", "error", "refused", "lost", "also", "unknown", "errors.plain(error)"}
PERSONAL = {"entity", "account", "actor", "metadata", "label", "key", "token", "secret", "url", "body"}


class LogCall(NamedTuple):
    """One call in the source."""

    where: str
    logger: str
    level: str
    event: str
    fields: tuple[str, ...]
    errors: tuple[str, ...]
    """The arguments of the message that are exceptions, by their names."""


def _logger(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger"):
            (name,) = node.args
            assert isinstance(name, ast.Constant)
            return str(name.value)
    return None


def log_calls() -> list[LogCall]:
    """All of them; whatever is no plain call on a module's `log` is an error."""
    found = []
    for path in sorted((ROOT / "src/holdkit").rglob("*.py")):
        if "_sync" in path.parts or "testing" in path.parts:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        logger = _logger(tree)
        if logger is None:
            continue
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if ast.unparse(node.func.value) not in ("log", "logger", "logging", "_log", "LOG"):
                continue
            if node.func.attr not in METHODS:
                continue
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            extra = [one.value for one in node.keywords if one.arg == "extra"]
            assert len(extra) == 1, f"{where}: a log call has extra={{'event': …}}"
            assert isinstance(extra[0], ast.Dict), where
            names = [ast.literal_eval(key) for key in extra[0].keys if key is not None]
            assert names[0] == "event", f"{where}: the event comes first"
            found.append(
                LogCall(
                    where,
                    logger,
                    node.func.attr,
                    ast.literal_eval(extra[0].values[0]),
                    tuple(names[1:]),
                    tuple(sorted(ERRORS & {ast.unparse(one) for one in node.args})),
                )
            )
    return found


def documented() -> dict[str, tuple[str, str, str]]:
    """Level, logger and fields by event, as the page has them."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| `([\w.]+)` \| ([^|]*) \|", PAGE, re.MULTILINE)
    return {event: (level, logger, fields.strip()) for event, level, logger, fields in rows}


def test_every_log_call_follows_the_convention_and_is_in_the_table() -> None:
    calls = log_calls()
    assert len(calls) > 40
    for call in calls:
        assert call.logger in LOGGERS, call
        assert call.level in LEVELS, call
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", call.event), call
        assert not RESERVED & set(call.fields), call
        assert not PERSONAL & set(call.fields), call
        if call.level == "info":
            assert call.errors == (), f"{call}: the message of an error may quote what a caller wrote"
    written = {
        call.event: (LEVELS[call.level], call.logger, ", ".join(f"`{field}`" for field in call.fields))
        for call in calls
    }
    assert len(written) == len({call[1:5] for call in calls}), "an event means one thing, wherever it is logged"
    assert documented() == written


def test_a_record_carries_its_event_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    with holdkit.connect("memory://", clock=FakeClock()) as hk, caplog.at_level(logging.WARNING, "holdkit"):
        hk.create_pool("gpu", 1)

        def fails(_entry: holdkit.JournalEntry) -> None:
            raise RuntimeError("of the application")

        hk.journal.on("pool.created", fails)
        hk.create_pool("other", 1)

        def ours() -> list[logging.LogRecord]:  # whatever is left of other tests may log meanwhile
            return [record for record in caplog.records if vars(record).get("subject") == "other"]

        wait_until(lambda: bool(ours()))
        (record,) = ours()
    told = vars(record)
    assert (record.name, record.levelname) == ("holdkit", "ERROR")
    assert (told["event"], told["action"], told["subject"]) == ("listener_failed", "pool.created", "other")
