"""Bring .venv to exactly what requirements.lock says. Standard library only: it runs before anything is installed.

uv does the work because it is fast and removes what the lock no longer names. It does not read pip's configuration, so the
index that pip would use is handed on; where uv cannot be had, pip installs the same locked hashes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
UV_LOCK = ROOT / "tools" / "requirements-uv.lock"
HASHED = ("--require-hashes", "--requirement")

# uv's variable for each pip setting. Hashes are always required, so searching all indexes cannot let a stranger in.
HANDED_ON = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}


def parse_pip_config(listing: str) -> dict[str, str]:
    """The settings of `pip config list`, whatever scope they come from; the environment wins, as it does in pip."""
    found: dict[str, str] = {}
    from_environment: dict[str, str] = {}
    for line in listing.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            scope, _, name = key.rpartition(".")
            target = from_environment if scope == ":env:" else found
            target[name] = value.strip().strip("'\"").replace("\\n", " ")
    return found | from_environment


def uv_environment(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: what the user set for uv stays, the rest follows pip."""
    result = dict(environment)
    for setting, variable in HANDED_ON.items():
        if settings.get(setting):
            value = ",".join(settings[setting].split()) if variable == "UV_FIND_LINKS" else settings[setting]
            result.setdefault(variable, value)
    result.setdefault(
        "UV_INDEX_STRATEGY", "unsafe-best-match"
    )  # pip's own rule: the locked version, from wherever it is
    return result


def main() -> int:
    """Sync, then install the project itself without resolving anything."""
    python = sys.executable
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    listing = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    environment = uv_environment(parse_pip_config(listing), os.environ)
    editable = ["install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    have_uv = subprocess.run([*pip, "install", *HASHED, str(UV_LOCK)], check=False).returncode == 0
    if have_uv:
        uv = [python, "-m", "uv", "--quiet", "pip"]
        sync = [*uv, "sync", "--require-hashes", "--python", python, str(LOCK)]
        if subprocess.run(sync, env=environment, check=False).returncode == 0:
            return subprocess.run([*uv, *editable, "--python", python], env=environment, check=False).returncode
    print("uv could not do it; installing the same lock with pip", file=sys.stderr)
    if code := subprocess.run([*pip, "install", *HASHED, str(LOCK)], check=False).returncode:
        return code
    return subprocess.run([*pip, *editable], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
