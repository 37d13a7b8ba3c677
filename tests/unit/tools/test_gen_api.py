from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tools import gen_api

SOURCE = """
from __future__ import annotations
import msgspec

__all__ = ["Pair", "join", "LIMIT"]
LIMIT = 3

class Pair(msgspec.Struct):
    a: int
    b: str | None = None
    def swap(self, *, twice: bool = False) -> Pair: ...
    def _inner(self) -> None: ...

def join(pair: Pair, with_: object = print) -> str: ...
"""


def test_names_members_and_signatures_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("holdkit.example")
    monkeypatch.setitem(sys.modules, "holdkit.example", module)
    exec(SOURCE, vars(module))
    assert [*gen_api.described(module)] == [
        "LIMIT: int",
        "class Pair(Struct)",
        "  Pair.a: int",
        "  Pair.b: str | None = ...",
        "  Pair.swap(self, *, twice: 'bool' = False) -> 'Pair'",
        "def join(pair: 'Pair', with_: 'object' = <print>) -> 'str'",
    ]


def test_a_change_is_noticed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert gen_api.main(["--check"]) == 0, capsys.readouterr().err
    monkeypatch.setattr("holdkit.testing.FakeClock.jump", lambda self, seconds: None, raising=False)
    assert gen_api.main(["--check"]) == 1
    assert "tests/fixtures/api/holdkit.testing.txt: the public names have changed: make gen" in capsys.readouterr().err


def test_namespaces_are_listed_with_their_signatures() -> None:
    lines = [*gen_api.namespaces()]
    for kind in ("Kernel", "AsyncKernel", "RemoteKernel", "AsyncRemoteKernel"):
        paths = {line.partition(": ")[0] for line in lines if line.startswith(f"{kind}.")}
        assert {
            f"{kind}.{name}" for name in ("claims", "items", "seats", "journal", "admin.records", "budget")
        } <= paths
    assert (
        sum(line.startswith("  Claims.free(self, type: 'str', value: 'str', *, reason: 'str'") for line in lines) == 1
    )
