"""``holdkit doctor``: is this fit to be relied on, and if not, what to do."""

from __future__ import annotations

import click

from ..kernel.doctor import examine
from .opening import chosen, must_exist, whole
from .shapes import DoctorDocument
from .words import FINE, FOUND, Output

MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


@click.command()
@whole
def doctor(place: str | None, url: str | None, in_json: bool) -> int:
    """Check versions, settings, files, disk, clock, schema and sweep; each line says what to do. Fails if any fails.

    \b
    Example:
      holdkit doctor sqlite:///holds.db
    """
    url = chosen(url, place)
    must_exist(url)
    findings = tuple(examine(url))
    failed = any(finding.level == "fail" for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]}  {finding.name:<18}  {finding.says}")
        if finding.advice:
            lines.append(f"{'':<26}→ {finding.advice}")
    Output(in_json).say(DoctorDocument(not failed, findings), *lines)
    return FOUND if failed else FINE
