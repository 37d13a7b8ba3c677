"""Migrations: numbered, forward only, each in one transaction: old or new, never half.

Runs under the write lock. Refuses a schema newer than it knows, and tables that bear our names but are not ours. Never
touches a table whose name does not begin with ``holdkit_``.
"""

from __future__ import annotations

import sqlite3

import msgspec

from ...core.limits import LIMITS_KEY
from ...core.model import MEANING, Limits, Slot
from ...errors import EngineError
from ..settings import StoredLimits, check_asked, limits_as_created
from .driver import Driver, Row, Script, migrations, write
from .rows import new_generation, record_of, setting_row


def migrate(driver: Driver, path: str, limits: Limits, now: Slot) -> None:
    """Bring the schema up to date; with the first migration the limits that change meaning are stored."""
    steps = migrations()
    version = present_version(driver, path)
    if version > steps[-1][0]:
        raise EngineError(
            f"cannot open {path}: its schema is version {version}, this release knows {steps[-1][0]}; "
            f"use a release at least as new as the one that wrote it"
        )
    for number, name, text in steps:
        if number > version:
            _step(driver, number, name, text, limits, now)


def present_version(driver: Driver, path: str) -> int:
    """The schema's version, 0 if it has none; a stranger's table of our name is refused."""
    ours = [row[0] for row in driver.ask("list_our_tables")]
    if "holdkit_migrations" not in ours:
        if ours:
            raise EngineError(
                f"cannot open {path}: it has a table {ours[0]} that is not ours; rename it, or use another file"
            )
        return 0
    try:
        return int(driver.ask("schema_version")[0][0] or 0)
    except (sqlite3.OperationalError, TypeError, ValueError) as error:
        raise EngineError(
            f"cannot open {path}: its table holdkit_migrations is not ours; rename it, or use another file"
        ) from error


def _step(driver: Driver, number: int, name: str, text: str, limits: Limits, now: Slot) -> None:
    driver.tell("begin immediate")
    try:
        if not driver.ask("has_version_table")[0][0]:
            driver.ask("create_version_table")
        if driver.ask("schema_version")[0][0] in (None, *range(number)):  # else another process was faster
            for statement in split(text):
                driver.tell(statement)
            if number == 1:
                driver.run(_store(limits))
            driver.ask("record_version", (number, name, now))
        driver.tell("commit")
    except BaseException:
        if driver.connection.in_transaction:
            driver.connection.rollback()
        raise


def split(text: str) -> list[str]:
    """The statements of a script, one by one."""
    statements, present = [], ""
    for line in text.splitlines():
        bare = line.split("--", 1)[0].rstrip()
        if bare:
            present += bare + "\n"
            if sqlite3.complete_statement(present):
                statements.append(present.strip())
                present = ""
    assert not present, "a migration ends with a semicolon"
    return statements


def _store(limits: Limits) -> Script[None]:
    rows: list[Row] = [setting_row("fence_floor", 0), new_generation()]
    rows += [setting_row(f"limit.{name}", getattr(limits, name)) for name in MEANING]
    yield (write("put_setting", rows),)


def stored_limits(driver: Driver, path: str, asked: Limits | None) -> StoredLimits:
    """The limits in force: those that change meaning as stored, the others as asked for."""
    stored = {
        name[6:]: msgspec.json.decode(value)
        for name, value in driver.ask("load_settings")
        if name.startswith("limit.") and name[6:] in MEANING
    }
    created = limits_as_created(path, stored, asked, Limits())
    rows = driver.ask("load_record", LIMITS_KEY)
    return check_asked(path, asked, StoredLimits(created, record_of(rows[0]) if rows else None), Limits())
