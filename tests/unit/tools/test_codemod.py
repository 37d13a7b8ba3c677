"""The codemod converts programs that were written against the names before API 1.0."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdkit
from tools.codemod_1_0 import MARK, convert, convert_markdown, main
from tools.names_1_0 import HOMES, TOP

PROGRAMS = Path(__file__).parents[2] / "fixtures" / "codemod"
BEFORE = sorted(PROGRAMS.glob("*.before.txt"))
TO_LOOK_AT = {"06_seats": 1, "07_line": 1, "09_clock": 1}
"""The comments that a program keeps: `~item/` in a leg, the place from 1, the deadline that is a datetime."""


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.name.partition(".")[0])
def test_the_ten_programs(path: Path) -> None:
    name = path.name.partition(".")[0]
    converted, marks = convert(path.read_text("utf-8"))
    assert converted == (PROGRAMS / f"{name}.after.txt").read_text("utf-8")
    assert marks == TO_LOOK_AT.get(name, 0) == converted.count(MARK)
    compile(converted, name, "exec")


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.name.partition(".")[0])
def test_a_converted_program_stays_as_it_is(path: Path) -> None:
    converted, _ = convert(path.read_text("utf-8"))
    bare = "".join(line for line in converted.splitlines(keepends=True) if MARK not in line)
    again, _ = convert(bare)
    assert "".join(line for line in again.splitlines(keepends=True) if MARK not in line) == bare


def test_there_are_ten_programs() -> None:
    assert len(BEFORE) == 10


HEAD = "import holdkit\nhk = holdkit.connect()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hk.confirm(id, owner=secret)", "hk.confirm(holdkit.ticket(id, secret))"),
        ("h = hk.get(id)\nhk.release(h, owner=secret)", "h = hk.get(id)\nhk.release(holdkit.ticket(h.id, secret))"),
        ("hk.extend(h, owner=h.owner, by='5m')", "hk.extend(h, by='5m')"),
        ("h = hk.hold('a', owner=secret, ttl=1)\nprint(h.owner)", "h = hk.hold('a', token=secret, ttl=1)\nprint(h.token)"),
        ("hk.return_units(pool='p', quantity=2, force=True, reason='r')", "hk.admin.free('p', 2, reason='r')"),
        ("hk.return_units(h, quantity=2)", "hk.return_units(h, quantity=2)"),
        ("hk.release(h, force=False)", "hk.release(h)"),
        ("hk.children('p', limit=5)", "hk.pools(below='p', limit=5)"),
        ("hk.account('ann').usage()", "hk.accounts.usage('ann')"),
        ("hk.accounts('a')", "hk.accounts.list('a')"),
        ("for e in hk.follow('mail'):\n    print(e.slot)", "for e in hk.journal.follow('mail'):\n    print(e.raw.slot)"),
        ("for e in hk.journal():\n    print(e.position.seq, e.entry.change, e.as_of, e.generation)",
         "for e in hk.journal.list():\n    print(e.raw.position.seq, e.raw.entry.change, e.raw.as_of, e.raw.generation)"),
        ("def f(e: holdkit.JournalEntry): return e.without_body()", "def f(e: holdkit.JournalEntry): return e.raw.without_body()"),
        ("hk.on(None, print)", "hk.journal.on(None, print)"),
        ("hk.journal(limit=5)", "hk.journal.list(limit=5)"),
        ("hk.cursor(back=5)", "hk.journal.cursor(back=5)"),
        ("hk.history('show:42')", "hk.journal.history('show:42')"),
        ("hk.history(h)", "hk.history(h)"),
        ("print(hk.stats.batches)", "print(hk.admin.stats().batches)"),
        ("print(hk.generation())", "print(hk.admin.stats().generation)"),
        ("hk.tenant('a').resize_pool('p', 1)", "hk.tenant('a').admin.resize_pool('p', 1)"),
        ("self.shop.resize_pool('p', 1)", "self.shop.admin.resize_pool('p', 1)"),
        ("shop.admin.resize_pool('p', 1)", "shop.admin.resize_pool('p', 1)"),
        ("hk.hold([hk.claims.key('a', 'b'), holdkit.units('p')], ttl=1)", "hk.hold([holdkit.claim('a', 'b'), ('p', 1)], ttl=1)"),
        ("claims = hk.claims\nclaims.confirm(c, entity='e')", "claims = hk.claims\nhk.confirm(c, entity='e')"),
        ("hk.claims.find(id='res_1')", "hk.claims.get(id='res_1')"),
        ("hk.items.remove_seats('42', ['a'])", "hk.seats.remove('42', ['a'])"),
        ("hk.items.seats('42')", "hk.seats.list('42')"),
        ("hk.items.add(['a', 'b'])", "hk.items.add(['a', 'b'])"),
        ("hk.items.release(['a'], owner=o)", "hk.items.release(['a'], token=o)"),
        ("r = hk.resource(Rooms())\nr.commit(h, entity='e')\nr.hold('a', ttl=1)", "r = hk.resource(Rooms())\nhk.confirm(h, entity='e')\nr.hold('a', ttl=1)"),
        ("holdkit.PlaceHold(legs=(), owner=o)", "holdkit.commands.PlaceHold(legs=(), token=o)"),
        ("p = hk.pool('p')\nprint(p.fence, p.total)", "p = hk.pool('p')\nprint(p.raw.fence, p.total)"),
        ("print([h.row for h in hk.holds()])", "print([h.raw for h in hk.holds()])"),
        ("hold = hk.hold('a', ttl=1)\nassert hold.ticket is not None", "hold = hk.hold('a', ttl=1)"),
        ("{}.items()\nmine.owner.name", None),
    ],
)  # fmt: skip
def test_a_line(before: str, after: str | None) -> None:
    converted, marks = convert(f"{HEAD}{before}\n")
    if after is None:
        assert "mine.owner.name" in converted, "somebody else's attribute stays, and is named"
        assert marks == 1
    else:
        assert (converted, marks) == (f"{HEAD}{after}\n", 0)


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("hk.release(id, force=True)", "admin.release needs a reason"),
        ("hk.join('a', ttl=1, offer_ttl=1, force=True)", "force= is gone"),
        ("hk.hold('a', ttl=1, force=forced)", "call admin.hold with a reason where it is true"),
        ("for no in hk.apply(commands): pass", "apply() returns Outcome values"),
        ("hk.claims.find(entity='e')", "claims.list(entity=) is a page"),
        ("hk.claims.forget(link, force=True, reason='r')", "the type and the value"),
        ("hk.items.reserve(['a'])", "ttl=None holds until it is ended"),
        ("print(hk.limits)", "the limits are hk.admin.limits()"),
        ("page = hk.holds()\nprint(page.reached)", "a page has `next` now"),
        ("print(x.owner)", "if this is a Hold, its secret is `.token`"),
        ("def f(claims: Claims): claims.confirm(c, entity='e')\ndef g(resources): resources.claims.confirm(c, entity='e')", None),
        ("holdkit.span('5m')", "span is gone"),
        ("print(hk.sweep().scanned_slot)", "read `scanned_at`, a datetime"),
        ("print([one.opens_slot for one in api.usage('a')])", "read `opens`, a datetime"),
        ("print(hk.record('k', 'x').slot)", "read `at`, a datetime"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_says_what_to_do(line: str, mark: str | None) -> None:
    converted, marks = convert(f"{HEAD}{line}\n")
    if mark is None:
        assert "resources.confirm(c, entity='e')" in converted, "a chain of attributes is enough"
        return
    assert marks == 1
    assert f"{MARK}" in converted
    assert mark in converted


def test_a_comment_stands_above_its_own_statement() -> None:
    source = f"{HEAD}def f():\n    # why\n    if hk.place(h):\n        print(1)\n    return hk.get(h)\n"
    converted, _ = convert(source)
    assert "    # why\n    # holdkit 1.0: place() counts from 1 now: 1 is next\n    if hk.place(h):\n" in converted


def test_imports_go_to_the_submodules() -> None:
    source = "# a shop\nfrom holdkit import Hold, PoolExists as Exists, VerifyReport, key  # names\n"
    assert convert(source)[0] == (
        "# a shop\nfrom holdkit import Hold, claim\nfrom holdkit.errors import PoolExists as Exists\n"
        "from holdkit.reports import VerifyReport  # names\n"
    )
    assert convert("import holdkit\nprint(holdkit.Action, holdkit.Hold)\n")[0] == (
        "import holdkit\nprint(holdkit.journal.Action, holdkit.Hold)\n"
    )


def test_a_variable_with_the_new_name_of_an_import_is_named() -> None:
    source = "from holdkit import connect, key\nhk = connect()\nclaim = hk.get(id)\nhk.hold([key('a', 'b')], ttl=1)\n"
    converted, marks = convert(source)
    assert converted.startswith(f"{MARK}key is claim now, and a variable of this file is called claim too")
    assert marks == 1
    assert convert(source.replace("claim = ", "seen = "))[1] == 0
    converted, marks = convert(source.replace("key\n", "key as k\n").replace("[key(", "[k("))
    assert ("claim as k" in converted, "[k('a', 'b')]" in converted, marks) == (True, True, 0)


def test_what_is_gone_is_named_where_it_was_imported_and_where_it_is_called() -> None:
    calls = "import holdkit\nhk = holdkit.connect()\nhk.hold('a', ttl=span('5m'))\n"
    mark = f"{MARK}span is gone: there is no replacement: pass the ttl itself\n"
    call = f"import holdkit\nhk = holdkit.connect()\n{mark}hk.hold('a', ttl=span('5m'))\n"
    assert convert(f"from holdkit import span\n{calls}") == (call, 1)
    assert convert(f"from holdkit import Hold, span\n{calls}") == (f"{mark}from holdkit import Hold\n{call}", 2)


@pytest.mark.parametrize("paths", [[], ["--names-only"], ["missing.py"]])
def test_a_run_without_files_fails(paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(paths) == 2
    assert ("missing.py" if "missing.py" in paths else "PATH...") in capsys.readouterr().err


def test_a_module_that_gets_a_ticket_imports_holdkit() -> None:
    source = "import os\nfrom holdkit import connect\nhk = connect()\nhk.confirm(id, owner=o)\n"
    assert convert(source)[0] == (
        "import holdkit\nimport os\nfrom holdkit import connect\nhk = connect()\nhk.confirm(holdkit.ticket(id, o))\n"
    )


def test_code_without_holdkit_stays() -> None:
    source = "kernel.verify()\nx.claims.reserve('a')\nprint(y.owner, y.deadline_at)\n"
    assert convert(source) == (source, 0)


def test_names_only() -> None:
    source = f"{HEAD}hold = hk.hold('a', ttl=1)\nprint(hold.deadline, hk.journal, holdkit.Usage)\n"
    assert convert(source, names_only=True) == (source.replace("holdkit.Usage", "holdkit.reports.Usage"), 0)


def test_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Text hk.verify()\n\n```python\nhk.verify()\n```\n\n```python\nno code $\n```\n\n```sh\nhk.verify()\n```\n"
    )
    assert main([str(tmp_path)]) == 0
    text = page.read_text()
    assert text.count("hk.verify()") == 2
    assert "```python\nhk.admin.verify()\n```" in text
    assert f"{page}: converted\n" == capsys.readouterr().out
    assert convert_markdown(text) == (text, 0)


def test_the_tables_name_what_was_public_before() -> None:
    assert not TOP & HOMES.keys()
    assert len(TOP) == 44
    assert set(holdkit.__all__) - {"key", "span", "units"} <= TOP | HOMES.keys()
