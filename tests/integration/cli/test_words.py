"""What is said when something does not work: in the words of the command line; and what is said after Ctrl-C."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import holdkit
from holdkit.cli import output
from holdkit.cli.root import root
from holdkit.cli.words import HINTS, chosen, worded
from holdkit.errors import HoldkitError, OutcomeUnknown
from holdkit.kernel import answers
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import run

PYTHON = re.compile(r"\w+\(\)|\b\w+=(?![\w…])|\b\w+_pool\b|\bhk\.|\btx\b|=True|`")
"""What only callers in Python understand."""


@pytest.fixture
def hk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> holdkit.Kernel:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_URL", url)
    with holdkit.connect(url) as kernel:
        kernel.create_pool("gpu", total=5)
        for _ in range(30):
            kernel.release(kernel.hold("gpu", 1, ttl=60))
        return kernel


def test_no_refusal_speaks_python() -> None:
    said = dict(answers._SAID)
    assert len(said) > 25
    found = {reason: worded(HoldkitError(text), root, ()) for reason, text in said.items()}
    assert {reason: text for reason, text in found.items() if PYTHON.search(text)} == {}


def test_every_hint_is_of_a_message_that_exists() -> None:
    package = Path(holdkit.__file__).parent
    paths = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "cli"]
    sources = "".join(path.read_text() for path in paths)
    joined = re.sub(r'"\s*\n\s*f?"', "", sources)
    assert [said for said, _ in HINTS if not re.search(said, joined)] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("hold", "gpu", "--ttl", "5 parsecs"), "holdkit: --ttl: "),
        (("hold", "gpu", "--ttl", "5m", "--units", 0), "holdkit: --units: "),
        (("hold", "gpu", "--leg", "a", 1), "either a pool (with --units) or legs"),
        (("consume", "--leg", "gpu", 0), "holdkit: --leg: "),
        (("extend", "0" * 32, "--by", "soon"), "holdkit: --by: "),
        (("release", "0" * 32, "--force"), "holdkit: --reason: "),
        (("hold", "gpu", "--ttl", "5m", "--actor", "bob"), "holdkit: --actor: "),
        (("confirm", "nonsense"), "holdkit: TICKET: "),
        (("items", "reserve", "a", "a"), "holdkit: ITEM: "),
        (("join", "gpu", "--ttl", "2h", "--offer-ttl", "x"), "holdkit: --offer-ttl: "),
        (("pools", "create", "~mine", 1), "holdkit: POOL: "),
        (("claim", "reserve", "e:mail", "x", "--ttl", "5m"), "holdkit: TYPE: "),
        (("journal", "list", "--after", "nonsense"), "holdkit: --after: "),
        (("pools", "list", "--prefx", "a"), "No such option"),
    ],
)
@pytest.mark.usefixtures("hk")
def test_bad_input_names_what_was_typed(command: tuple[object, ...], words: str) -> None:
    assert words in refusal(*command, code=2).message
    assert words.removeprefix("holdkit: ") in run(*command, code=2).err


def test_a_refusal_names_the_command_that_helps(hk: holdkit.Kernel) -> None:
    assert "holdkit pools create" in refusal("hold", "nowhere", "--ttl", "5m").message
    assert "holdkit pools resize" in refusal("pools", "create", "gpu", 1).message


def test_an_unknown_outcome_tells_how_to_find_out() -> None:
    lost, hold = OutcomeUnknown("the connection broke"), chosen(root, ["pools", "resize", "gpu", "1"])
    assert hold.name == "resize"
    assert "run the same command again" in worded(lost, hold, ["--op", "r1"])
    assert "use --op next time" in worded(lost, hold, [])
    assert worded(lost, chosen(root, ["pools", "list"]), []) == "holdkit: the connection broke"


def test_a_change_that_is_interrupted_is_unknown(hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(type(hk), "hold", stopped)
    error = refusal("hold", "gpu", "--ttl", "5m", "--op", "r1", code=130)
    assert (error.error, error.effect) == ("interrupted", "unknown")
    assert "run the same command again" in error.message


def interrupted(monkeypatch: pytest.MonkeyPatch, *command: object) -> str:
    """What a command says that gets SIGINT while it works."""
    calls: list[int] = []

    def stop(done: int, _total: int) -> None:
        calls.append(done)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(output, "tell", stop)
    error = refusal(*command, code=130)
    assert calls, "it tells no progress"
    assert error.error == "interrupted"
    monkeypatch.undo()
    return error.message


def test_ctrl_c_leaves_a_word_about_what_is_done(
    hk: holdkit.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, other, copy = hk.url, f"sqlite:///{tmp_path}/other.db", tmp_path / "copy.jsonl"
    hk.close()
    assert "nothing was changed" in interrupted(monkeypatch, "verify", url)
    assert "nothing was changed" in interrupted(monkeypatch, "repair", url)
    assert "everything was corrected, or nothing" in interrupted(monkeypatch, "repair", url, "--yes")
    assert f"{copy} was not written" in interrupted(monkeypatch, "export", "--url", url, copy)
    assert list(tmp_path.glob("*copy*")) == []
    run("export", "--url", url, copy)
    assert "nothing was imported" in interrupted(monkeypatch, "import", "--url", other, copy)
    run("import", "--url", other, copy)
    run("verify", other)
    before = len(run("journal", "list", "--url", url).out.splitlines())
    away = tmp_path / "away"
    said = interrupted(monkeypatch, "archive", url, "--before", "0s", "--to", away)
    assert re.search(r"at least \d+ entries to .*away; run it again", said)
    run("archive", url, "--before", "0s", "--to", away)
    run("verify", url, "--archive", away)
    assert before > 0
