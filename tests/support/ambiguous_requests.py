"""Ambiguous HTTP requests, for a server and for the proxies in front of it.

A proxy and a server that read a request differently let a client speak in the name of others: what one of them takes for a body is
the next request to the other. Each attack here carries such a second request. It would take a unit of the pool `PREY`, so that
whether an attack got through is seen by its effect: `units_taken`.

REFUSED   The request has no reading that everybody shares. The server answers it with 400, or closes the connection, and reads
          nothing after it.
HIDDEN    The request has one reading, and a careless parser another. The server answers it, and what it hides has no effect.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterable
from typing import Final

import httpx

from tests.support.threads import PATIENCE

PREY: Final = "prey"
FIRST: Final = b"POST /v1/pools HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED: Final = FIRST + b"Transfer-Encoding: chunked\r\n\r\n"
LAST: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_EMPTY: Final = FIRST + b"Content-Length: 0\r\n\r\n"


def _length(line: bytes) -> bytes:
    return FIRST + line + b"\r\n\r\n"


def _coding(line: bytes) -> bytes:
    return FIRST + line + b"\r\n\r\n0\r\n\r\n"


def _header(line: bytes) -> bytes:
    return FIRST + line + b"\r\nContent-Length: 0\r\n\r\n"


def _request_line(line: bytes) -> bytes:
    return line + b"\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


REFUSED: Final = {
    # Two framings, or one that is no number
    "a length with chunks": _coding(b"Content-Length: 5\r\nTransfer-Encoding: chunked"),
    "chunks with a length": _coding(b"Transfer-Encoding: chunked\r\nContent-Length: 5"),
    "a length of 0 with chunks": _coding(b"Content-Length: 0\r\nTransfer-Encoding: chunked"),
    "two lengths": _length(b"Content-Length: 0\r\nContent-Length: 5"),
    "one length twice": _length(b"Content-Length: 0\r\nContent-Length: 0"),
    "a length twice in other letters": _length(b"Content-Length: 0\r\ncontent-LENGTH: 5"),
    "a list of lengths": _length(b"Content-Length: 0, 0"),
    "a list of other lengths": _length(b"Content-Length: 0,5"),
    "a length with a plus": _length(b"Content-Length: +0"),
    "a negative length": _length(b"Content-Length: -1"),
    "a hexadecimal length": _length(b"Content-Length: 0x0"),
    "a length with a fraction": _length(b"Content-Length: 0.0"),
    "a length with an exponent": _length(b"Content-Length: 0e1"),
    "a length with an underscore": _length(b"Content-Length: 0_0"),
    "two numbers as a length": _length(b"Content-Length: 0 5"),
    "a length in quotes": _length(b'Content-Length: "0"'),
    "a length with a parameter": _length(b"Content-Length: 0;a"),
    "a length after a vertical tab": _length(b"Content-Length: \x0b0"),
    "a length before a NUL": _length(b"Content-Length: 0\x00"),
    "a length of other digits": _length(b"Content-Length: \xd9\xa0"),
    "a length of 64 bits and one": _length(b"Content-Length: 18446744073709551616"),
    "a length of 30 digits": _length(b"Content-Length: 100000000000000000000000000000"),
    "an empty length": _length(b"Content-Length: "),
    "a length after a space before the colon": _length(b"Content-Length : 0"),
    "a length after a tab before the colon": _length(b"Content-Length\t: 0"),
    "a length after a NUL in its name": _length(b"Content-Length\x00: 0"),
    "a folded length": _length(b"Content-Length:\r\n 0"),
    # Codings
    "an unknown coding": _coding(b"Transfer-Encoding: xchunked"),
    "a coding that is cut short": _coding(b"Transfer-Encoding: chunk"),
    "an empty coding": _coding(b"Transfer-Encoding: "),
    "identity": _length(b"Transfer-Encoding: identity"),
    "identity with a length": _length(b"Transfer-Encoding: identity\r\nContent-Length: 0"),
    "gzip": _coding(b"Transfer-Encoding: gzip"),
    "two codings": _coding(b"Transfer-Encoding: gzip, chunked"),
    "two codings in two headers": _coding(b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"),
    "chunked is not last": _coding(b"Transfer-Encoding: chunked, identity"),
    "chunked twice": _coding(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    "chunked twice in one header": _coding(b"Transfer-Encoding: chunked, chunked"),
    "chunked before a comma": _coding(b"Transfer-Encoding: chunked,"),
    "chunked after a comma": _coding(b"Transfer-Encoding: ,chunked"),
    "chunked with a parameter": _coding(b"Transfer-Encoding: chunked;a=b"),
    "chunked in quotes": _coding(b'Transfer-Encoding: "chunked"'),
    "chunked after a vertical tab": _coding(b"Transfer-Encoding: \x0bchunked"),
    "chunked before a NUL": _coding(b"Transfer-Encoding: chunked\x00"),
    "chunked after a space before the colon": _coding(b"Transfer-Encoding : chunked"),
    "chunked after a tab before the colon": _coding(b"Transfer-Encoding\t: chunked"),
    "chunked after a bare carriage return": _coding(b"X-A: a\rTransfer-Encoding: chunked"),
    "chunked after a bare line feed": _coding(b"X-A: a\nTransfer-Encoding: chunked"),
    "a folded coding": _coding(b"Transfer-Encoding:\r\n chunked"),
    "a coding in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    # Chunks
    "a chunk size with 0x": CHUNKED + b"0x0\r\n\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-1\r\n\r\n0\r\n\r\n",
    "a chunk size with a plus": CHUNKED + b"+0\r\n\r\n",
    "a chunk size before a space": CHUNKED + b"0 \r\n\r\n0\r\n\r\n",
    "a chunk size after a space": CHUNKED + b" 0\r\n\r\n",
    "a chunk size with an underscore": CHUNKED + b"0_0\r\n\r\n",
    "an empty chunk size": CHUNKED + b"\r\n\r\n",
    "a chunk size of 64 bits and one": CHUNKED + b"10000000000000000\r\n\r\n",
    "a chunk size with a bare line feed": CHUNKED + b"0\n\r\n",
    "a chunk size with a bare carriage return": CHUNKED + b"0\r\r\n",
    "a chunk extension with a bare line feed": CHUNKED + b"0;a\n\r\n",
    "a chunk extension with a bare carriage return": CHUNKED + b"0;a\rb\r\n\r\n",
    "a chunk extension with a NUL": CHUNKED + b"0;a\x00\r\n\r\n",
    "a chunk that is longer than its size": CHUNKED + b"1\r\nxy\r\n0\r\n\r\n",
    "a chunk that ends with a bare line feed": CHUNKED + b"1\r\nx\n0\r\n\r\n",
    "a chunk that ends with a bare carriage return": CHUNKED + b"1\r\nx\r0\r\n\r\n",
    "a length in a trailer": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "a coding in a trailer": CHUNKED + b"0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded trailer": CHUNKED + b"0\r\nX-A: a\r\n b\r\n\r\n",
    "a trailer with a bare line feed": CHUNKED + b"0\r\nX-A: a\n\r\n",
    # Lines and headers
    "a folded header": _header(b"X-A: a\r\n b"),
    "a header folded with a tab": _header(b"X-A: a\r\n\tb"),
    "a space before the first header": b"GET /livez HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "bare line feeds": _EMPTY.replace(b"\r\n", b"\n"),
    "bare carriage returns": _EMPTY.replace(b"\r\n", b"\r"),
    "one bare line feed": _header(b"X-A: a\nX-B: b"),
    "a bare carriage return in a header": _header(b"X-A: a\rX-B: b"),
    "two carriage returns": _header(b"X-A: a\r"),
    "a head that ends with a bare line feed": FIRST + b"Content-Length: 0\r\n\n",
    "a NUL in a header": _header(b"X-A: a\0"),
    "a control character in a header": _header(b"X-A: a\x01b"),
    "a NUL in a name": _header(b"X\0A: a"),
    "a space in a name": _header(b"X A: a"),
    "a bare carriage return in a name": _header(b"X\rA: a"),
    "a letter beyond ASCII in a name": _header(b"X-\xc3\xa4: a"),
    "no colon": _header(b"nonsense"),
    "no name": _header(b": a"),
    # Request lines, hosts and versions
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "no version": b"GET /livez\r\n\r\n",
    "HTTP/0.9": _request_line(b"GET /livez HTTP/0.9"),
    "HTTP/1.2": _request_line(b"GET /livez HTTP/1.2"),
    "HTTP/1.10": _request_line(b"GET /livez HTTP/1.10"),
    "HTTP/01.1": _request_line(b"GET /livez HTTP/01.1"),
    "HTTP/2.0": _request_line(b"GET /livez HTTP/2.0"),
    "http/1.1 in small letters": _request_line(b"GET /livez http/1.1"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a host as the target": _request_line(b"GET localhost:80 HTTP/1.1"),
    "a target without a slash": _request_line(b"GET livez HTTP/1.1"),
    "a space in the target": _request_line(b"GET /live z HTTP/1.1"),
    "a NUL in the target": _request_line(b"GET /live\0z HTTP/1.1"),
    "a bare carriage return in the target": _request_line(b"GET /live\rz HTTP/1.1"),
    "no target": _request_line(b"GET HTTP/1.1"),
    "a method in small letters": _request_line(b"get /livez HTTP/1.1"),
    "an unknown method": _request_line(b"STEAL /livez HTTP/1.1"),
    "a NUL before the method": _request_line(b"\0GET /livez HTTP/1.1"),
}


def second_request(key: str) -> bytes:
    """The request that no attack may bring through: it takes a unit of the prey."""
    body = b'{"pool": "%s", "ttl": 600}' % PREY.encode()
    return (
        b"POST /v1/holds HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: smuggled\r\nContent-Length: %d\r\n\r\n%s" % (key.encode(), len(body), body)
    )


def hidden(key: str) -> dict[str, tuple[bytes, list[bytes]]]:
    """Return by name what a client sends that hides a request or a key, before `LAST`, and the statuses of all answers."""
    second, bearer = second_request(key), b"Authorization: Bearer %s\r\n" % key.encode()
    keyless = second.replace(bearer, b"")
    head, body = keyless.split(b"\r\n\r\n")
    chunked = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head) + b"\r\n\r\n"
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body)

    def after(line: bytes, first: bytes = FIRST) -> bytes:
        return first + line + b"Content-Length: %d\r\n\r\n%b" % (len(second), second)

    def in_chunk(size: bytes = b"%x" % len(second)) -> bytes:
        return CHUNKED + size + b"\r\n" + second + b"\r\n0\r\n\r\n"

    def as_method(name: bytes, path: bytes = b"/v1/pools") -> bytes:
        return after(b"", FIRST.replace(b"POST /v1/pools", name + b" " + path))

    refused, fine = [b"401", b"200"], [b"200", b"200"]
    return {
        "a key in a trailer": (chunked + chunks + bearer + b"\r\n", refused),
        "a key in a trailer of two": (chunked + chunks + b"X-A: a\r\n" + bearer + b"\r\n", refused),
        "a key in a trailer that is announced": (
            chunked.replace(b"\r\n\r\n", b"\r\nTrailer: Authorization\r\n\r\n") + chunks + bearer + b"\r\n", refused),
        "a host in a trailer": (chunked + chunks + b"Host: other\r\n\r\n", refused),
        "a key in a chunk extension": (chunked + chunks.replace(b"\r\n", b";authorization=%b\r\n" % key.encode(), 1) + b"\r\n", refused),
        "a key in the body of another": (_EMPTY.replace(b"Length: 0\r\n\r\n", b"Length: %d\r\n\r\n%b" % (len(bearer), bearer)), refused),
        "a request in a body": (after(b""), refused),
        "a request in the body of a GET": (as_method(b"GET", b"/livez"), fine),
        "a request in the body of a HEAD": (as_method(b"HEAD", b"/livez"), fine),
        "a request in the body of a DELETE": (as_method(b"DELETE"), [b"405", b"200"]),
        "a request in the body of an OPTIONS": (as_method(b"OPTIONS"), [b"405", b"200"]),
        "a request in the body of a static page": (as_method(b"GET", b"/"), fine),
        "a request in the body of what is not there": (as_method(b"POST", b"/nothing"), [b"404", b"200"]),
        "a request in a chunk": (in_chunk(), refused),
        "a request in a chunk with leading zeros": (in_chunk(b"0000%X" % len(second)), refused),
        "a request in a chunk with an extension": (in_chunk(b"%x;a=b" % len(second)), refused),
        "a request in a body with a length of leading zeros": (FIRST + b"Content-Length: 000%d\r\n\r\n%b" % (len(second), second), refused),
        "a body with a length that Connection names": (after(b"Connection: keep-alive, Content-Length\r\n"), refused),
        "a body with another length with an underscore": (after(b"Content_Length: 0\r\n"), refused),
        "a body with another length with a prefix": (after(b"X-Content-Length: 0\r\n"), refused),
        "a body with a coding with a prefix": (after(b"X-Transfer-Encoding: chunked\r\n"), refused),
        "a body with TE": (after(b"TE: chunked, trailers\r\n"), refused),
        "a body that waits": (after(b"Expect: 100-continue\r\n"), refused),
        "a body after an upgrade to HTTP/2": (
            after(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), refused),
        "a body after an upgrade to a WebSocket": (
            after(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n"), refused),
        "chunks after an upgrade": (
            in_chunk().replace(b"Transfer-Encoding", b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding", 1), refused),
        "a target with another host": (as_method(b"POST", b"http://other/v1/pools"), refused),
        "two hosts": (_header(b"Host: other"), [b"400", b"200"]),
        "two keys": (keyless.replace(b"\r\n", b"\r\nAuthorization: Bearer hk_x\r\n" + bearer, 1), [b"400", b"200"]),
    }  # fmt: skip


def make_prey(http: httpx.Client) -> None:
    """Create the pool that the second requests are after."""
    assert http.post("/v1/pools", json={"id": PREY, "total": 1_000}).status_code == 201


def units_taken(http: httpx.Client) -> int:
    """How many second requests got through."""
    pool = http.get(f"/v1/pools/{PREY}").json()
    return int(pool["total"]) - int(pool["available"])


def send(wire: socket.socket, packets: Iterable[bytes]) -> bytes:
    """Send everything; return what comes back until the other side closes the connection."""
    wire.settimeout(PATIENCE)
    answers = b""
    with contextlib.suppress(ConnectionError):
        for packet in packets:
            wire.sendall(packet)
    with contextlib.suppress(ConnectionResetError):
        while part := wire.recv(65_536):
            answers += part
    return answers


def statuses(answers: bytes) -> list[bytes]:
    """The statuses of the answers, without `100 Continue`."""
    return [status for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers) if status != b"100"]
