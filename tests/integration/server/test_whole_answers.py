"""An answer is written at once, and is byte for byte what uvicorn writes in two pieces."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from holdkit.server.guard import write_answer

DATE = (b"date", b"Mon, 16 Nov 2026 09:00:00 GMT")
LENGTH = (b"content-length", b"2")


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def cycle(*, keep_alive: bool = True) -> tuple[RequestResponseCycle, Transport, list[str]]:
    transport, completed = Transport(), list[str]()
    log = logging.getLogger("test")
    made = RequestResponseCycle(
        {"type": "http", "method": "GET"}, transport, FlowControl(transport), log, log, False,  # type: ignore[typeddict-item]
        [DATE], asyncio.Event(), False, keep_alive, lambda: completed.append("answered"),
    )  # fmt: skip
    return made, transport, completed


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("headers", [[LENGTH], [(b"connection", b"close"), LENGTH]])
def test_an_answer_is_what_uvicorn_would_write_in_one_piece(
    headers: list[tuple[bytes, bytes]], keep_alive: bool
) -> None:
    async def main() -> None:
        theirs, piecewise, _ = cycle(keep_alive=keep_alive)
        await theirs.send({"type": "http.response.start", "status": 201, "headers": headers})
        await theirs.send({"type": "http.response.body", "body": b"{}"})
        ours, whole, completed = cycle(keep_alive=keep_alive)
        assert write_answer(ours, 201, headers, b"{}")
        assert whole.written == [b"".join(piecewise.written)]
        assert whole.closed is piecewise.closed
        assert completed == ["answered"]
        assert (ours.response_started, ours.response_complete) == (True, True)

    asyncio.run(main())


def test_a_line_break_in_a_header_is_never_written() -> None:
    async def main() -> None:
        made, transport, completed = cycle()
        with pytest.raises(ValueError, match="line break"):
            write_answer(made, 200, [(b"etag", b"1\r\nset-cookie: a=b"), LENGTH], b"{}")
        assert (transport.written, completed, made.response_started) == ([], [], False)

    asyncio.run(main())


def test_while_the_client_takes_nothing_or_is_gone_nothing_is_written() -> None:
    async def main() -> None:
        paused, transport, _ = cycle()
        paused.flow.pause_writing()
        assert not write_answer(paused, 200, [LENGTH], b"{}")
        gone, other, _ = cycle()
        gone.disconnected = True
        assert not write_answer(gone, 200, [LENGTH], b"{}")
        assert transport.written == other.written == []

    asyncio.run(main())
