"""`holdkit run`: the hold is there while the command runs and gone after it, whatever happens to either."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdkit
from tests.support.command_line import run
from tests.support.threads import wait_until

RUN = [sys.executable, "-m", "holdkit", "run", "--pool", "gpu"]
TTL = "6s"
"""Noticed within a third of it; and long enough for a machine that is busy with others."""
TALK = "echo ready $HOLDKIT_HOLD $HOLDKIT_FENCE; read answer; exit 9"


@pytest.fixture
def hk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdkit.Kernel]:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_URL", url)
    with holdkit.connect(url) as kernel:
        kernel.create_pool("gpu", total=1)
        yield kernel


def start(*options: str, script: str = TALK) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RUN, *options, "--", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str], text: str = "") -> tuple[int, str]:
    out, err = process.communicate(text, timeout=120)
    assert "Traceback" not in err, err
    return process.returncode, out + err


def test_held_while_it_runs_and_released_after(hk: holdkit.Kernel) -> None:
    process = start("--actor", "job:train")
    word, hold_id, fence = said(process).split()
    assert word == "ready"
    hold = hk.get(hold_id)
    assert (hold.state, hold.fence, hold.actor, hk.pool("gpu").held) == ("held", int(fence), "job:train", 1)
    assert end(process, "go on\n")[0] == 9, "the command's own code"
    assert (hk.get(hold_id).state, hk.pool("gpu").held) == ("released", 0)


def test_the_slot_of_a_team_is_counted_by_its_account(hk: holdkit.Kernel) -> None:
    hk.admin.limit_pool("gpu", 1)
    assert "account_required" in run("run", "--pool", "gpu", "--", "true", code=1).err
    process = start("--account", "team:blue", "--wait", "1m")
    _, hold_id, _ = said(process).split()
    assert (hk.get(hold_id).account, hk.accounts.usage("team:blue")[0].used) == ("team:blue", 1)
    refused = run("run", "--pool", "gpu", "--account", "team:blue", "--wait", "1m", "--", "true", code=1)
    assert "account_limit" in refused.err, "at once, although it would wait for units"
    assert end(process, "go on\n")[0] == 9
    assert hk.accounts.usage("team:blue") == []
    passed = run("run", "--pool", "gpu", "--force", "--reason", "box office", "--", "sh", "-c", "exit 3", code=3)
    assert passed.err == ""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on(hk: holdkit.Kernel, sent: signal.Signals) -> None:
    name = sent.name.removeprefix("SIG")
    process = start(script=f"sleep 60 & trap 'echo got {name}; kill $!; exit 40' {name}; echo ready; wait; exit 9")
    assert said(process) == "ready\n"
    process.send_signal(sent)
    code, told = end(process)
    assert (code, f"got {name}" in told) == (40, True)
    assert hk.pool("gpu").held == 0


def test_a_command_that_dies_of_a_signal(hk: holdkit.Kernel) -> None:
    said_ = run("run", "--pool", "gpu", "--", "sh", "-c", "kill -TERM $$", code=128 + signal.SIGTERM)
    assert said_.err == ""
    assert hk.pool("gpu").held == 0


def test_ctrl_c_interrupts_the_command_once(hk: holdkit.Kernel) -> None:
    script = "trap 'echo struck' INT; echo ready; read answer; read answer; exit 3"
    master, slave = pty.openpty()
    process = subprocess.Popen(  # a session of its own, with the terminal: as a shell would start it
        [*RUN, "--", "bash", "-c", script], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509  (only a system call)
    )  # fmt: skip
    os.close(slave)
    shown = _until(master, b"ready")
    os.write(master, b"\x03")
    shown += _until(master, b"struck")
    os.write(master, b"a\nb\nc\n")
    assert process.wait(120) == 3
    shown += _rest(master)
    os.close(master)
    assert shown.count(b"struck") == 1
    assert hk.pool("gpu").held == 0


def take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _until(descriptor: int, word: bytes) -> bytes:
    shown = b""
    while word not in shown:
        shown += os.read(descriptor, 1000)
    return shown


def _rest(descriptor: int) -> bytes:
    shown = b""
    try:
        while more := os.read(descriptor, 1000):
            shown += more
    except OSError:  # the other end has gone
        pass
    return shown


def test_a_lost_hold_stops_the_command(hk: holdkit.Kernel) -> None:
    process = start(
        "--ttl", TTL, script="sleep 60 & trap 'echo told; kill $!; exit 0' TERM; echo ready $HOLDKIT_HOLD; wait"
    )
    hold_id = said(process).split()[1]
    hk.admin.release(hold_id, reason="needed elsewhere")
    code, told = end(process)
    assert code == 7
    assert "told" in told
    assert f"hold {hold_id} is lost" in told


def test_one_that_will_not_stop_is_killed(hk: holdkit.Kernel) -> None:
    process = start("--ttl", TTL, "--grace", "10ms", script="trap '' TERM; echo ready $HOLDKIT_HOLD; read a; read b")
    hk.admin.release(said(process).split()[1], reason="needed elsewhere")
    process.wait(120)
    assert process.returncode == 7
    end(process)


def test_killed_outright_the_ttl_gives_it_back(hk: holdkit.Kernel) -> None:
    process = start("--ttl", "2s")
    hold = hk.get(said(process).split()[1])
    process.kill()
    process.wait(120)
    assert hold.raw.deadline is not None
    hold = hk.get(hold.id)
    assert hold.raw.deadline is not None
    assert hold.raw.held_at is not None
    assert hold.raw.deadline - hold.raw.held_at <= 60_000_000, "nobody renews it any more, and the deadline will do it"
    end(process)


def test_no_room(hk: holdkit.Kernel) -> None:
    taken = hk.hold("gpu", 1, ttl=600)
    assert "insufficient_capacity" in run("run", "--pool", "gpu", "--", "true", code=1).err
    assert run("run", "--pool", "gpu", "--refused-code", 75, "--json", "--", "true", code=75).err.startswith("{")
    run("run", "--pool", "gpu", "--wait", "10ms", "--", "true", code=1)
    process = start("--wait", "1m")
    hk.release(taken)
    assert said(process).startswith("ready")
    assert end(process, "\n")[0] == 9


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_waiting_can_be_interrupted(hk: holdkit.Kernel, name: signal.Signals) -> None:
    hk.hold("gpu", 1, ttl=600)
    process = start("--wait", "1h")
    wait_until(lambda: hk.pool("gpu").waiting == 1)
    process.send_signal(name)
    assert end(process)[0] == 128 + name
    assert hk.pool("gpu").waiting == 0, "it has left the line"


def test_those_who_wait_are_served_in_turn_and_a_retry_keeps_its_place(hk: holdkit.Kernel) -> None:
    taken = hk.hold("gpu", 1, ttl=600)
    first = start("--wait", "1h", "--op", "nightly")
    wait_until(lambda: hk.pool("gpu").waiting == 1)
    first.kill()
    end(first)
    second = start("--wait", "1h")
    wait_until(lambda: hk.pool("gpu").waiting == 2)
    again = start("--wait", "1h", "--op", "nightly")
    hk.release(taken)
    assert said(again).startswith("ready")
    assert hk.pool("gpu").waiting == 1
    assert end(again, "\n")[0] == 9
    assert said(second).startswith("ready")
    assert end(second, "\n")[0] == 9


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--pool", "gpu", "--", "/no/such/program"), 127, "cannot run"),
        (("--pool", "gpu", "--", "/"), 126, "cannot run"),
        (("--pool", "gpu", "--"), 2, "COMMAND"),
        (("--", "true"), 2, "no pool given"),
        (("--pool", "nowhere", "--", "true"), 1, "pool_not_found"),
        (("--pool", "gpu", "--ttl", "soon", "--", "true"), 2, "ttl"),
        (("--pool", "gpu", "--grace", "soon", "--", "true"), 2, "grace"),
    ],
)
def test_what_cannot_be_run_holds_nothing(
    hk: holdkit.Kernel, arguments: tuple[str, ...], code: int, word: str
) -> None:  # fmt: skip
    assert word in run("run", *arguments, code=code).err
    assert hk.pool("gpu").held == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), "our own mask is as it was"
