"""docs/django.md: a fresh project, made by Django's own command, with nothing but what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from holdkit.contrib.django.configuration import Configuration
from tests.acceptance.docs.pages import ROOT, blocks, table_rows

PAGE = ROOT / "docs/django.md"
LEFT_OUT = ("pip ", "django-admin ", "cd ", "python manage.py runserver")


def test_a_fresh_project_by_the_page(tmp_path: Path) -> None:
    def django(*arguments: str, directory: Path) -> str:
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=directory,
            env={name: value for name, value in os.environ.items() if not name.startswith("DJANGO")},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    django("-m", "django", "startproject", "shop", directory=tmp_path)
    project, written, said = tmp_path / "shop", 0, ""
    for block in blocks(PAGE.read_text("utf-8")):
        if block.language == "py":
            name, _, text = block.text.partition("\n")
            file = project / name.removeprefix("# ")
            assert file.is_file(), name
            file.write_text((file.read_text() if file.name == "settings.py" else "") + text)
            written += 1
        elif block.language == "sh":
            for line in block.text.splitlines():
                if not line.startswith(LEFT_OUT):
                    _, *arguments = shlex.split(line, comments=True)
                    said += django(*arguments, directory=project)
    assert written == 6
    assert "Ran 2 tests" in said
    assert "System check identified no issues" in said
    assert django("manage.py", "check", "--database", "default", directory=project).startswith(
        "System check identified no issues"
    )


def test_the_tables_of_the_page() -> None:
    rows = table_rows(PAGE)
    keys = [row[0].strip("`") for row in rows if row[0].strip("`").isupper()]
    assert keys == list(Configuration.__struct_encode_fields__)
    code = (ROOT / "src/holdkit/contrib/django/checks.py").read_text("utf-8")
    used = set(re.findall(r'id="(holdkit\.[EW]\d+)"', code))
    assert {row[0] for row in rows if row[0].startswith("holdkit.")} == used
