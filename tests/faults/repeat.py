"""Repeat one trial: `python -m tests.faults.repeat SPEC [SPEC]`, as a failed test printed it.

A SPEC is `NUMBER:before|after:io|full|kill` for a statement, or what follows `inject=` for strace; a second one is met by
the same life (errors) or by the next one (kills). `CANARY=name` breaks the kernel first. The files of a trial that failed
are kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from msgspec import convert

from tests.faults import tracing, trials
from tests.faults.fault_points import Fault
from tests.faults.trials import ForkServer, Verdict


def parse(spec: str) -> Fault | str:
    """A statement's fault, or strace's words."""
    parts = spec.split(":")
    if not parts[0].isdigit():
        return spec
    return convert({"number": int(parts[0]), "when": parts[1], "what": parts[2]}, Fault)


def repeat(fork_server: ForkServer, specs: list[str], canary: str = "") -> Verdict:
    """Run the trial that the specs describe."""
    statements = [one for one in map(parse, specs) if isinstance(one, Fault)]
    if statements and statements[0].what == "kill":
        return trials.kill(fork_server, statements[0], statements[1] if len(statements) > 1 else None, canary)
    if statements:
        return trials.errors(fork_server, statements, canary)
    if "signal=KILL" in specs[0]:
        return tracing.kill(fork_server, specs[0], specs[1] if len(specs) > 1 else None, canary)
    return tracing.errors(fork_server, specs[0], canary, lasting=specs[0].endswith("+"))


def main() -> int:
    """Print the verdict."""
    place = Path(tempfile.mkdtemp(prefix="holdkit-again-"))
    with ForkServer(place) as fork_server:
        verdict = repeat(fork_server, sys.argv[1:], os.environ.get("CANARY", ""))
        for violation in verdict.violations:
            print(violation)  # noqa: T201
        kept = f"; files in {place}" if verdict.violations else ""
        print(f"{len(verdict.violations)} violations, {verdict.fired} faults met{kept}")  # noqa: T201
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
