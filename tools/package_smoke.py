"""What an installed Holdkit must do in a clean environment: run by `tools/package_check.py` there, with nothing but the package.

    python package_smoke.py EXTRA...    the extras that this environment has

Prints the extras that a missing package was explained with, one per line; anything unexpected is an exception.
"""

import asyncio
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

import holdkit

PYTEST_PLUGINS = {"holdkit.testing.plugin", "holdkit.testing.postgres.plugin"}
"""pytest imports these, so it is there when they are."""
COMMANDS = ("holdkit.cli.",)
"""The way in is the command, which is tried by itself."""


def explained(missing: holdkit.errors.MissingExtra) -> str:
    """The extra that the message says how to install."""
    assert f"pip install 'holdkit[{missing.extra}]'" in str(missing), missing
    return missing.extra


def doors(path: list[str], prefix: str) -> set[str]:
    """Import every module that a user can import; return the extras by which failures were explained.

    If a package fails, its modules would fail with the same message. What is inside a framework's package is imported by the framework.
    """
    named: set[str] = set()
    for module in pkgutil.iter_modules(path, prefix):
        if module.name in PYTEST_PLUGINS or module.name.endswith("__main__") or module.name.startswith(COMMANDS):
            continue
        try:
            imported = importlib.import_module(module.name)
        except holdkit.errors.MissingExtra as missing:
            named.add(explained(missing))
            continue
        inside_framework = prefix == "holdkit.contrib."
        if module.ispkg and not inside_framework:
            named |= doors(list(imported.__path__), f"{module.name}.")
    return named


def use(url: str) -> None:
    """A hold, a retry, a confirm, and a journal that agrees."""
    with holdkit.connect(url) as hk:
        hk.create_pool("show:42", total=3)
        hold = hk.hold("show:42", 2, ttl="5m", op="order-81")
        assert hk.hold("show:42", 2, ttl="5m", op="order-81").id == hold.id
        assert hk.confirm(hold).state == "confirmed"
        assert hk.pool("show:42").available == 1
        assert hk.admin.verify().ok


def command(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a file."""
    program = Path(sys.executable).with_name("holdkit")
    variables = {**os.environ, "HOLDKIT_URL": f"sqlite:///{folder}/command.db"}
    return subprocess.run([program, *arguments], env=variables, capture_output=True, text=True, check=False)


def command_line(installed: set[str], folder: str) -> set[str]:
    """The command works, or says what to install."""
    done = command(folder, "pools", "create", "gpu", "8")
    if done.returncode == 0:
        held = command(folder, "hold", "gpu", "--ttl", "5m")
        assert (held.returncode, held.stderr) == (0, ""), held
        return set()
    assert done.returncode == 2, done
    assert not {"cli", "server"} & installed, done
    assert "pip install 'holdkit[cli]'" in done.stderr, done
    return {"cli"}


def signatures() -> set[str]:
    """Keys can be read, or the error says what to install."""
    from holdkit.kernel.signing import PublicKey

    try:
        PublicKey.load("missing.pem")
    except holdkit.errors.MissingExtra as missing:
        return {explained(missing)}
    except holdkit.InvalidRequest:
        return set()
    raise AssertionError("a key was read from a file that does not exist")


async def serve() -> None:
    """The server answers, with its own routes and its document."""
    import httpx

    from holdkit.server import app

    application = app("memory://")
    async with application.lifespan():
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path, status in (("/livez", 200), ("/v1/openapi.json", 200), ("/v1/pools", 401)):
                answer = await client.get(path)
                assert answer.status_code == status, answer.text


def main(installed: set[str]) -> None:
    """Try everything that needs no extra, and look whether what needs one says so."""
    assert "site-packages" in str(holdkit.__file__), holdkit.__file__
    with tempfile.TemporaryDirectory() as folder:
        for url in ("memory://", f"sqlite:///{folder}/holds.db"):
            use(url)
        named = doors(list(holdkit.__path__), "holdkit.") | command_line(installed, folder) | signatures()
    if "server" in installed:
        asyncio.run(serve())
    assert not named & installed, f"installed, and yet asked for: {sorted(named & installed)}"
    print(*sorted(named), sep="\n")


if __name__ == "__main__":
    main(set(sys.argv[1:]))
