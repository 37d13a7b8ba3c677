from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tools import gen_sync
from tools.gen_sync import CannotTranslateError, generate, main, translate


def sync_of(source: str) -> str:
    return translate(dedent(source))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def place(self): ...", "def place(self): ..."),
        ("x = await self.send(1)", "x = self.send(1)"),
        ("return [await f(x) async for x in y]", "return [f(x) for x in y]"),
        ("async with a as b, c as d: ...", "with a as b, c as d: ..."),
        ("await (await f()).g()", "(f()).g()"),
        ("class AsyncKernel(AsyncBase[AsyncIterator[int]]): ...", "class Kernel(Base[Iterator[int]]): ..."),
        ("_AsyncWaiter()", "_Waiter()"),
        ("async def __aenter__(self): ...", "def __enter__(self): ..."),
        ("async def __aexit__(self): ...", "def __exit__(self): ..."),
        ("async def __aiter__(self): ...", "def __iter__(self): ..."),
        ("async def __anext__(self): raise StopAsyncIteration", "def __next__(self): raise StopIteration"),
        ("await hk.aclose()", "hk.close()"),
        ("@asynccontextmanager", "@contextmanager"),
        ("from holdkit.kernel._async.queue import AsyncQueue", "from holdkit.kernel._sync.queue import Queue"),
        ("hk = await connect_async(url)", "hk = connect(url)"),
        ('__all__ = ["AsyncKernel"]', '__all__ = ["Kernel"]'),
        ("x: 'AsyncKernel'  # an AsyncKernel", "x: 'Kernel'  # an Kernel"),
    ],
)
def test_one_line(source: str, expected: str) -> None:
    assert translate(source + "\n") == expected + "\n"


@pytest.mark.parametrize("word", ["Asynchronous", "Async", "async_count", "awaited", "make_async", "MyAsyncThing"])
def test_words_that_only_look_async_stay(word: str) -> None:
    assert translate(f"{word} = 1\n") == f"{word} = 1\n"


def test_prose_keeps_its_async_and_await() -> None:
    source = '"""Callers await the async pump."""\nx = "await"  # async callers await\n'
    assert translate(source) == source


def test_markers_swap_lines() -> None:
    source = """
        def wait(self):
            await self.event.wait()  # async-only
            # sync-only: if not self.event.wait(AsyncName):
            # sync-only:     raise TimeoutError
            return self.value
    """
    expected = """
        def wait(self):
            if not self.event.wait(AsyncName):
                raise TimeoutError
            return self.value
    """
    assert sync_of(source) == dedent(expected)


def test_markers_work_in_docstrings() -> None:
    source = '''
        """Use it:

        >>> async with connect_async(url) as hk:  # async-only
        >>> # sync-only: with connect(url) as hk:
        ...     hk.pool("gpu")
        """
    '''
    expected = '''
        """Use it:

        >>> with connect(url) as hk:
        ...     hk.pool("gpu")
        """
    '''
    assert sync_of(source) == dedent(expected)


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("def f() -> AsyncGenerator[int, None]: ...", "AsyncIterator"),
        ("import asyncio", "async-only"),
        ('async def f(x): return f"{await x}"', "bind it to a name"),
        ('async def f(x): return f"{x:>{await x}}"', "bind it to a name"),
    ],
)
def test_what_has_no_sync_form_stops_the_generator(source: str, advice: str) -> None:
    with pytest.raises(CannotTranslateError, match=f"line 1.*{advice}"):
        translate(source + "\n")


def test_a_marked_line_may_use_what_has_no_sync_form() -> None:
    assert translate("import asyncio  # async-only\nx = 1\n") == "x = 1\n"


ASYNC_MODULE = '''\
"""A queue."""

from collections.abc import AsyncIterator, Iterator
from typing import Any


class AsyncQueue:
    async def drain(self, names: Iterator[str]) -> AsyncIterator[str]:
        async for name in self.source(names,  # why
                                      await self.limit()):
            yield name
'''

SYNC_MODULE = '''\
# Generated from ../_async/queue.py by tools/gen_sync.py: do not edit.
"""A queue."""

from collections.abc import Iterator


class Queue:
    def drain(self, names: Iterator[str]) -> Iterator[str]:
        for name in self.source(
            names,  # why
            self.limit(),
        ):
            yield name
'''


@pytest.fixture
def house(tmp_path: Path) -> Path:
    source = tmp_path / "kernel" / "_async" / "queue.py"
    source.parent.mkdir(parents=True)
    source.write_text(ASYNC_MODULE, encoding="utf-8")
    return tmp_path


def test_the_result_is_formatted_sorted_and_names_its_source(house: Path) -> None:
    source = house / "kernel" / "_async" / "queue.py"
    text = generate(source, house / "kernel" / "_sync" / "queue.py")
    assert text == SYNC_MODULE
    compile(text, "queue.py", "exec")


def test_check_lists_stale_files_and_writes_nothing(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = house / "kernel" / "_sync" / "queue.py"
    assert main(["--check", "--root", str(house)]) == 1
    assert f"stale: {target}" in capsys.readouterr().out
    assert not target.exists()


def test_check_passes_after_generation_and_fails_after_an_edit(house: Path) -> None:
    target = house / "kernel" / "_sync" / "queue.py"
    assert main(["--root", str(house)]) == 0
    assert main(["--check", "--root", str(house)]) == 0
    target.write_text(target.read_text(encoding="utf-8") + "# by hand\n", encoding="utf-8")
    assert main(["--check", "--root", str(house)]) == 1


def test_a_twin_without_source_is_removed(house: Path) -> None:
    orphan = house / "kernel" / "_sync" / "old.py"
    orphan.parent.mkdir()
    orphan.write_text("x = 1\n", encoding="utf-8")
    assert main(["--check", "--root", str(house)]) == 1
    assert main(["--root", str(house)]) == 0
    assert not orphan.exists()


def test_the_error_names_file_and_line(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = house / "kernel" / "_async" / "queue.py"
    source.write_text("import asyncio\n", encoding="utf-8")
    assert main(["--root", str(house)]) == 1
    assert f"{source}: line 1: asyncio" in capsys.readouterr().err


def test_every_rename_leads_to_a_sync_name() -> None:
    for name in gen_sync.RENAMES.values():
        assert gen_sync.renamed(name) == name
