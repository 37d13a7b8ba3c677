from __future__ import annotations

import re

from holdkit import errors
from holdkit.core.outcomes import TRANSIENT, Reason
from tests.acceptance.docs.pages import ROOT, table_rows

ROWS = table_rows(ROOT / "docs/errors.md")


def test_every_reason_is_explained_in_ladder_order() -> None:
    listed = [row[0].strip("`") for row in ROWS if len(row) == 5]
    assert listed == [str(reason) for reason in Reason]


def test_class_and_transience_are_as_in_the_code() -> None:
    rows = [row for row in ROWS if len(row) == 5]
    assert len(rows) == len(Reason)
    for reason, name, transient, meaning, advice in rows:
        cls = errors.REFUSALS[reason.strip("`")]
        assert name == f"`{cls.__name__}`"
        assert transient == ("yes" if Reason(cls.reason) in TRANSIENT else "no")
        assert cls.transient == (Reason(cls.reason) in TRANSIENT)
        assert meaning
        assert advice


def test_families_are_as_in_the_code() -> None:
    families = {
        row[0].strip("`"): re.findall(r"`(\w+)`", row[2]) for row in ROWS if len(row) == 3 and row[2].startswith("`")
    }
    assert set(families) == {cls.__name__ for cls in errors.Refused.__subclasses__() if cls.__subclasses__()}
    for family, names in families.items():
        below = {cls.__name__ for cls in errors.REFUSALS.values() if issubclass(cls, vars(errors)[family])}
        assert set(names) == below, family


def test_titles_are_as_in_the_code() -> None:
    rows = {
        reason: title
        for title, reasons in (row for row in ROWS if len(row) == 2)
        for reason in re.findall(r"`(\w+)`", reasons)
    }
    assert rows == {reason: cls.title for reason, cls in errors.REFUSALS.items()}


def test_every_other_exception_is_explained() -> None:
    refusals = {cls.__name__ for cls in errors.REFUSALS.values()}
    others = {
        name
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.HoldkitError) and name not in refusals
    }
    explained = {row[0].strip("`"): row[1] for row in ROWS if len(row) == 3}
    assert set(explained) == others
    for name, effect in explained.items():
        assert effect == vars(errors)[name].effect
