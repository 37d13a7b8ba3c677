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
from holdkit.errors import REFUSALS, OutcomeUnknown
from holdkit.kernel import hints, import_
from holdkit.wire.pools import PoolNow
from tests.integration.cli.test_verbs import refusal
from tests.support.command_line import run, told
from tests.support.servers import live_server

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
    texts = {reason: hints.said(reason) for reason in hints.FACTS}
    assert len(texts) > 25
    found = {reason: worded(REFUSALS[reason](text), root, ()) for reason, text in texts.items()}
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
        (("items", "hold", "a", "a"), "holdkit: ITEM: "),
        (("join", "gpu", "--ttl", "2h", "--offer-ttl", "x"), "holdkit: --offer-ttl: "),
        (("pools", "create", "~mine", 1), "holdkit: POOL: "),
        (("claims", "hold", "e:mail", "x", "--ttl", "5m"), "holdkit: TYPE: "),
        (("journal", "list", "--after", "nonsense"), "holdkit: --after: "),
        (("pools", "list", "--prefx", "a"), "No such option"),
        (("join", "gpu//left", "--ttl", "2h", "--offer-ttl", "5m"), "a pool that was created as one"),
        (("pools", "limit", "gpu", 0), "holdkit: UNITS|none: "),
        (("extend", "0" * 32), "give exactly one of --by and --ttl"),
        (("claims", "show"), "give TYPE and VALUE, or --id"),
        (("reassign", "0" * 32), "give either --account or --no-account"),
        (("reassign", "0" * 32, "--account", "a", "--no-account"), "give either --account or --no-account"),
        (("pools", "list", "--url", "ftp://x"), "and a server's http://…"),
    ],
)
@pytest.mark.usefixtures("hk")
def test_bad_input_names_what_was_typed(command: tuple[object, ...], words: str) -> None:
    assert words in refusal(*command, code=2).message
    assert words.removeprefix("holdkit: ") in run(*command, code=2).err


def test_a_refusal_names_the_command_that_helps(hk: holdkit.Kernel) -> None:
    assert "holdkit pools create" in refusal("hold", "nowhere", "--ttl", "5m").message
    assert "holdkit pools resize" in refusal("pools", "create", "gpu", 1).message


def test_a_return_to_a_pool_names_the_option_for_an_account(hk: holdkit.Kernel) -> None:
    hk = holdkit.connect(hk.url)
    hk.consume("gpu", 1, account="customer:7")
    hk.close()
    said = refusal("pools", "free", "gpu", 1, "--reason", "refund").message
    assert said.endswith("those of an account with --account")


def test_what_a_server_says_names_what_was_typed(hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with live_server(hk.url) as server:
        monkeypatch.setenv("HOLDKIT_URL", server.url)
        assert "set HOLDKIT_KEY, or use --key" in refusal("pools", "list", code=5).message
        monkeypatch.setenv("HOLDKIT_KEY", server.admin)
        assert "holdkit: WEBHOOK: there is no webhook" in refusal("webhooks", "show", "nowhere", code=2).message
        assert "holdkit: WEBHOOK: there is no webhook" in refusal("webhooks", "replay", "nowhere", code=2).message
        assert (
            "holdkit: TENANT: there is no such tenant" in refusal("admin", "tenants", "show", "nowhere", code=2).message
        )
        for at_server in ((), ("--url", server.url)):
            bad = refusal("webhooks", "make", "ftp://x", *at_server, code=2)
            assert (bad.field, bad.code) == ("url", "url_malformed")
            assert bad.message.startswith("holdkit: TARGET: must have the form")
        elsewhere = refusal("webhooks", "make", "https://example.org/", "--url", hk.url, code=2).message
        assert elsewhere.startswith("holdkit: --url: webhooks are sent by a server")


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
    assert "nothing was changed" in interrupted(monkeypatch, "admin", "verify", url)
    assert "nothing was changed" in interrupted(monkeypatch, "admin", "repair", url)
    assert "everything was corrected, or nothing" in interrupted(monkeypatch, "admin", "repair", url, "--yes")
    assert f"{copy} was not written" in interrupted(monkeypatch, "admin", "export", "--url", url, copy)
    assert list(tmp_path.glob("*copy*")) == []
    run("admin", "export", "--url", url, copy)
    assert "nothing was imported" in interrupted(monkeypatch, "admin", "import", "--url", other, copy)
    run("admin", "import", "--url", other, copy)
    run("admin", "verify", other)
    before = len(run("journal", "list", "--url", url).out.splitlines())
    away = tmp_path / "away"
    said = interrupted(monkeypatch, "admin", "archive", url, "--before", "0s", "--to", away)
    assert re.search(r"at least \d+ entries to .*away; run it again", said)
    run("admin", "archive", url, "--before", "0s", "--to", away)
    run("admin", "verify", url, "--archive", away)
    assert before > 0


def test_ctrl_c_during_an_erasure_tells_how_to_go_on(
    hk: holdkit.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holdkit.connect(hk.url) as kernel:
        kernel.hold("gpu", 1, ttl=600, entity="user:7")
    asked = ("admin", "erase", hk.url, "--entity", "user:7")
    assert interrupted(monkeypatch, *asked, "--dry-run").endswith("interrupted: nothing was changed")
    said = interrupted(monkeypatch, *asked, "--reason", "request 118")
    assert said.endswith("a part may have been replaced; run the same command again to replace the rest")
    run(*asked, "--reason", "request 118")
    run("admin", "verify", hk.url)
    assert "user:7" not in run("journal", "list", "--url", hk.url, "--json").out


def test_ctrl_c_during_a_backup_or_a_restore_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, copy = f"sqlite:///{tmp_path}/holds", tmp_path / "copy"
    with holdkit.connect(url) as hk:
        hk.create_pool("gpu", total=5)
    assert f"{copy} was not written" in interrupted(monkeypatch, "admin", "backup", "--url", url, copy)
    assert not copy.exists()
    run("admin", "backup", "--url", url, copy)
    with holdkit.connect(url) as hk:
        hk.admin.resize_pool("gpu", 6)
    said = interrupted(monkeypatch, "admin", "restore", "--url", url, copy, "--replace")
    assert said.endswith(("everything was restored, or nothing: run it again", "nothing was restored: run it again"))
    assert list(tmp_path.glob(".*")) == []
    assert told(PoolNow, "pools", "show", "gpu", "--url", url).total == 6, "it is as it was"
    monkeypatch.setattr(
        import_, "sync_path", lambda _: signal.raise_signal(signal.SIGINT)
    )  # before the copy gets its name
    assert refusal("admin", "restore", "--url", url, copy, "--replace", code=130).effect == "unknown"
    monkeypatch.undo()
    assert list(tmp_path.glob(".*")) == []
    assert told(PoolNow, "pools", "show", "gpu", "--url", url).total == 6, "what was moved away is back"
    run("admin", "restore", "--url", url, copy, "--replace")
    assert told(PoolNow, "pools", "show", "gpu", "--url", url).total == 5


def test_ctrl_c_while_sealing_keeps_what_is_sealed(hk: holdkit.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(
        r"at least \d+ runs were sealed, and stay sealed", interrupted(monkeypatch, "admin", "seal", hk.url)
    )
    run("admin", "seal", hk.url)
    run("admin", "verify", hk.url, "--seals")
