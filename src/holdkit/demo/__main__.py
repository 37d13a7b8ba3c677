"""``python -m holdkit.demo``: exit code 0 only if nothing was oversold and `verify` is clean."""

from __future__ import annotations

import argparse
import asyncio
import sys
from importlib.util import find_spec

import msgspec

from .sale import Plan, run_demo
from .screen import Live, Plain, summary_text


def main(arguments: list[str] | None = None) -> int:
    """Parse the options, run the demo, print the summary."""
    parser = argparse.ArgumentParser(prog="python -m holdkit.demo", description="A flash sale on one SQLite file.")
    parser.add_argument(
        "--plain", action="store_true", help="plain text instead of a live view (the default without a terminal)"
    )
    parser.add_argument("--seconds", type=float, default=14, help="length of the sale, 1 to 600 (default 14)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the buyers' random behaviour (the timing is real)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON; the narration goes to stderr")
    options = parser.parse_args(arguments)
    if not 1 <= options.seconds <= 600:
        parser.error("--seconds must be between 1 and 600")
    plain = options.plain or options.json or not sys.stdout.isatty()
    if not plain and find_spec("rich") is None:
        print("holdkit: the live view needs rich: pip install 'holdkit[cli]', or add --plain", file=sys.stderr)
        return 2
    plan = Plan(seconds=options.seconds, seed=options.seed)
    try:
        with Plain(sys.stderr if options.json else sys.stdout) if plain else Live() as view:
            summary = asyncio.run(run_demo(plan, view))
    except KeyboardInterrupt:
        return 130
    print(msgspec.json.encode(summary).decode() if options.json else "\n" + summary_text(summary))
    return 0 if summary.ok else 1


if __name__ == "__main__":
    sys.exit(main())
