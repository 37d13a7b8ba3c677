"""The types that users are promised, as a second type checker sees them. (mypy reads the same examples in `make types`.)"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).with_name("type_examples.py")


def run_pyright(folder: Path) -> tuple[int, list[str]]:
    """How many files pyright read, and what it found, in a folder outside the project: Holdkit is an installed package there."""
    settings = {
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
        "strict": ["."],
        "enableTypeIgnoreComments": False,  # those are mypy's
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    report = json.loads(done.stdout)
    found = [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in report["generalDiagnostics"]]
    return report["summary"]["filesAnalyzed"], found


def test_pyright_agrees_with_the_examples(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES, tmp_path)
    assert run_pyright(tmp_path) == (1, [])


def test_pyright_would_notice(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import holdkit\n\nholdkit.connect('memory://').pool('a').avail\nholdkit.conect\n"
    )
    files, found = run_pyright(tmp_path)
    assert files == 1
    assert [line.split(":")[0] for line in found if "Cannot access" in line or "not a known" in line] == ["3", "4"]
