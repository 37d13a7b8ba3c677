"""docs/transactions.md: what needs a server runs here (``py`` blocks, and Django's in a process of its own); and its table
names every refusal that the code knows."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdkit
from tests.acceptance.docs.pages import ROOT, blocks, table_rows
from tests.acceptance.docs.test_examples import shown_output
from tests.support.frameworks import alchemy_url

PAGE = ROOT / "docs/transactions.md"

DJANGO = """
import django, holdkit, sys
from django.conf import settings
settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.postgresql", **{place!r}}}}})
django.setup()
hk = holdkit.connect({url!r})
"""


@pytest.fixture
def url(postgres_url: str) -> str:
    holdkit.migrate(postgres_url)
    return postgres_url


def test_the_examples_on_a_server(url: str) -> None:
    text = PAGE.read_text("utf-8")
    found = blocks(text)
    namespace: dict[str, Any] = {"__name__": "example"}
    ran = 0
    try:
        for index, block in enumerate(found):
            if block.language != "py" or "django" in block.text:
                continue
            source = block.text.replace("postgresql+psycopg://localhost/shop", alchemy_url(url))
            source = source.replace("postgresql://localhost/shop", url)
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile("\n" * (block.line - 1) + source, str(PAGE), "exec"), namespace)
            assert printed.getvalue() == shown_output(text, found, index), f"line {block.line}"
            ran += 1
        assert namespace["hk"].admin.verify().ok
    finally:
        namespace["engine"].dispose()
        namespace["hk"].close()
    assert ran == 5


def test_the_example_for_django(url: str) -> None:
    with holdkit.connect(url) as hk, psycopg.connect(url) as connection:
        hk.create_pool("lamp", 3)
        connection.execute("create table orders (id text primary key, hold text)")
        connection.commit()
        (source,) = [block.text for block in blocks(PAGE.read_text("utf-8")) if "from django" in block.text]
        parts = psycopg.conninfo.conninfo_to_dict(url)
        place = {"NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"]}
        program = DJANGO.format(place=place, url=url) + source + "\nhk.close()\n"
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=120)
        assert hk.pool("lamp").held == 1
        assert connection.execute("select id from orders").fetchall() == [("order:5",)]


def test_every_refusal_is_in_the_table() -> None:
    sources = [path.read_text("utf-8") for path in Path(holdkit.__file__).parent.rglob("*.py")]
    codes = {code for source in sources for code in re.findall(r'"(tx_\w+)"', source)}
    assert codes == {row[0].strip("`") for row in table_rows(PAGE) if row[0].startswith("`tx_")}
