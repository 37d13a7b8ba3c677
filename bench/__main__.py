"""``python -m bench``: measure, compare, print. Fails only if a run did not do what it claims."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .disk import MEMORY_FILE_SYSTEMS, file_system, sync_time
from .parts import PARTS, USUAL, Bench
from .postgres.stores import CONNECTIONS
from .report import print_setting, print_table, setting, write_json, write_plot
from .rows import BenchFailed

BUILD = Path(".build")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """The parsed options."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a taste: fewer rounds, fewer holds, a shorter past")
    parser.add_argument("--rounds", type=int, help="rounds per scenario (5, with --quick 3; the server 3 and 1)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=USUAL, help="some parts only")
    parser.add_argument("--dir", type=Path, default=BUILD, help="where the databases go: a real disk, not memory")
    parser.add_argument(
        "--sync",
        type=float,
        default=0,
        help="PostgreSQL: milliseconds that every sync takes longer, as on a disk in a cloud",
    )
    parser.add_argument(
        "--connections",
        type=int,
        default=CONNECTIONS,
        help="PostgreSQL: most connections of the hand-written variants (4 is their fastest; 256: one for each caller)",
    )
    parser.add_argument(
        "--past",
        type=int,
        help="growth: past holds (1,000,000, with --quick 50,000; ten million need 20 GB of disk); "
        "archive: entries (5,000,000, with --quick 20,000)",
    )
    parser.add_argument(
        "--against", metavar="REV", help="another revision of the project, run beside this one, alternating"
    )
    parser.add_argument("--json", type=Path, default=BUILD / "bench.json", help="where every run is written")
    parser.add_argument("--plot", type=Path, default=BUILD / "bench.png", help="where the plot is written")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the requested parts; return 1 if a check failed."""
    options = options_of(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    options.dir = options.dir.resolve()  # another revision's processes run in its own directory
    options.dir.mkdir(parents=True, exist_ok=True)
    kind = file_system(options.dir)
    if kind in MEMORY_FILE_SYSTEMS:
        console.print(f"[red]{options.dir} is on {kind}, where a sync costs nothing: choose a disk with --dir[/]")
        return 1
    where = setting(kind, sync_time(options.dir))
    print_setting(console, where)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as directory,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        bench = Bench(options, Path(directory), progress)
        if bench.flushes is None:
            console.print(
                "[yellow]this system does not count flushes: measured runs are not checked for their syncs[/]"
            )
        try:
            for part in PARTS:
                if part in options.only:
                    bench.run(part)
        except BenchFailed as failed:
            console.print(f"[bold red]bench failed:[/] {failed}")
            return 1
    if bench.figures:
        print_table(console, bench.figures)
    write_json(
        options.json, {"setting": where, "figures": [one.as_json() for one in bench.figures], "runs": bench.runs}
    )
    write_plot(options.plot, bench.figures, where)
    console.print(f"every run: {options.json}, plot: {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
