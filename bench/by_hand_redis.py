"""What good engineers write by hand on Redis: a Lua script per verb, on a server that syncs its log before it answers.

The script does what the guarded statement on PostgreSQL does: it checks and moves the pool's counters, stores the hold, its
deadline, a journal entry and an operation record. Redis runs one script at a time, keeps everything in memory, and with
``appendfsync always`` syncs once for all scripts of one turn of its loop, before it answers any of them: group commit, as ours.
Threads have a connection each; tasks share a few, over which each sends without waiting for the answers before it. Both
speak the protocol with as little code as possible, so that a client library's cost is not held against Redis. Never imports holdkit.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final, Self

import msgspec

from .by_hand import Held, NotGranted
from .by_hand_postgres.drafts import draft, ending, held
from .rows import BenchFailed

PROGRAM: Final = "redis-server"
PATIENCE: Final = 20.0

HOLD: Final = """
local known = redis.call('GET', KEYS[5])
if known then return known end
local pool = redis.call('HMGET', KEYS[1], 'total', 'held', 'consumed')
local quantity = tonumber(ARGV[2])
if not pool[1] or pool[1] - pool[2] - pool[3] < quantity then return false end
local now_held = redis.call('HINCRBY', KEYS[1], 'held', quantity)
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[2], 'state', 'held', 'pool', ARGV[8], 'quantity', quantity, 'deadline', ARGV[3], 'legs', ARGV[4],
           'owner_hash', ARGV[5], 'fence', fence, 'held_at', ARGV[6], 'version', 1)
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
redis.call('XADD', KEYS[4], '*', 'body', cjson.encode({slot = ARGV[6], action = 'hold.held', subject = ARGV[1],
    effects = {{pool = {id = ARGV[8], total = pool[1], held = now_held, consumed = pool[3], fence = fence,
    slot = ARGV[6], version = version}, held = quantity}}, hold = {id = ARGV[1], legs = ARGV[4], owner_hash = ARGV[5],
    held_at = ARGV[6], fence = fence, deadline = ARGV[3]}}))
redis.call('SET', KEYS[5], cjson.encode({ARGV[7], ARGV[1], ARGV[9], ARGV[3], fence, ARGV[8], quantity}), 'EX', 86400)
return fence
"""
CONFIRM: Final = """
local known = redis.call('GET', KEYS[5])
if known then return known end
local hold = redis.call('HMGET', KEYS[2], 'state', 'owner_hash', 'deadline', 'fence')
if hold[1] ~= 'held' or hold[2] ~= ARGV[5] or tonumber(hold[3]) <= tonumber(ARGV[6]) then return false end
local quantity = tonumber(ARGV[2])
local now_held = redis.call('HINCRBY', KEYS[1], 'held', -quantity)
local consumed = redis.call('HINCRBY', KEYS[1], 'consumed', quantity)
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[2], 'state', 'confirmed', 'ended_at', ARGV[6], 'entity', ARGV[3], 'last_op', ARGV[7], 'version', 2)
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('XADD', KEYS[4], '*', 'body', cjson.encode({slot = ARGV[6], action = 'hold.confirmed', subject = ARGV[1],
    effects = {{pool = {id = ARGV[8], held = now_held, consumed = consumed, slot = ARGV[6], version = version},
    held = -quantity, consumed = quantity}}, entity = ARGV[3]}))
redis.call('SET', KEYS[5], cjson.encode({ARGV[7], ARGV[1], ARGV[9], hold[3], hold[4], ARGV[8], quantity}), 'EX', 86400)
return 1
"""


def hold_call(one: dict[str, Any]) -> tuple[Any, ...]:
    """The words of a hold."""
    return ("EVALSHA", "", 5, *keys_of(one), one["id"], one["quantity"], one["deadline"], one["legs"], one["owner_hash"],
            one["now"], one["fingerprint"], one["pool"], one["token"])  # fmt: skip


def confirm_call(one: dict[str, Any]) -> tuple[Any, ...]:
    """The words of a confirm."""
    return ("EVALSHA", "", 5, *keys_of(one), one["id"], one["quantity"], one["entity"], "", one["owner_hash"],
            one["now"], one["fingerprint"], one["pool"], one["token"])  # fmt: skip


def keys_of(one: dict[str, Any]) -> tuple[str, ...]:
    """Pool, hold, due legs, journal, operation."""
    return (f"pool:{one['pool']}", f"hold:{one['id']}", f"legs:{one['pool']}", "journal", f"op:{one['op']}")


def command(*words: Any) -> bytes:
    """The bytes of a request."""
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def answer_in(received: bytes) -> tuple[Any, int] | None:
    """The first answer and where it ends, or None if it is not whole yet. Numbers, texts, nothing, or a list of these."""
    end = received.find(b"\r\n")
    if end < 0:
        return None
    kind, rest = received[:1], received[1:end]
    if kind == b"$" and rest != b"-1":
        upto = end + 2 + int(rest)
        return (received[end + 2 : upto].decode(), upto + 2) if len(received) >= upto + 2 else None
    if kind == b"*":
        values, at = [], end + 2
        for _ in range(int(rest)):
            found = answer_in(received[at:])
            if found is None:
                return None
            values.append(found[0])
            at += found[1]
        return values, at
    if kind == b"-":
        raise BenchFailed(f"redis: {rest.decode()}")
    return (int(rest) if kind == b":" else None if kind == b"$" else rest.decode()), end + 2


def granted(one: dict[str, Any], answer: Any) -> Held:
    """What the caller gets of the answer to a hold: a new one, or that of the first time."""
    if answer is None:
        raise NotGranted(one["pool"])
    if isinstance(answer, int):
        return held(one, answer)
    known, id, token, deadline, fence, pool, quantity = msgspec.json.decode(answer)
    if known != one["fingerprint"]:
        raise NotGranted(one["op"])
    return Held(id, token, int(deadline), fence, pool, quantity)


class ByHandRedis:
    """For threads: a connection each."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._here = threading.local()
        self._open: list[socket.socket] = []
        self._hold, self._confirm = (str(self.ask("SCRIPT", "LOAD", text)) for text in (HOLD, CONFIRM))

    def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> Held:
        """Take units until a deadline, or raise."""
        one = draft(pool, quantity, ttl, op)
        name, _, *rest = hold_call(one)
        return granted(one, self.ask(name, self._hold, *rest))

    def confirm(self, held: Held, /, *, op: str) -> None:
        """End a hold for good, or raise."""
        name, _, *rest = confirm_call(ending(held, op))
        if self.ask(name, self._confirm, *rest) is None:
            raise NotGranted(held.id)

    def order(self, pool: str, /, *, ttl: float, op: str) -> None:
        """Redis has no transaction with the caller's own rows."""
        raise NotImplementedError

    def prepare(self, pools: list[str], total: int) -> None:
        """Empty pools, and nothing else."""
        self.ask("FLUSHALL")
        for pool in pools:
            self.ask("HSET", f"pool:{pool}", "total", total, "held", 0, "consumed", 0, "fence", 0, "version", 1)
            self.ask("RPUSH", "pools", pool)

    def counted(self) -> tuple[int, int]:
        """Units held and consumed in all pools."""
        pools = [self.ask("LINDEX", "pools", number) for number in range(int(self.ask("LLEN", "pools")))]
        held, consumed = (
            sum(int(self.ask("HGET", f"pool:{pool}", name)) for pool in pools) for name in ("held", "consumed")
        )
        return held, consumed

    def ask(self, *words: Any) -> Any:
        """One request and its answer."""
        if not hasattr(self._here, "socket"):
            self._here.socket = self._connected()
        connection = self._here.socket
        connection.sendall(command(*words))
        received = connection.recv(65_536)
        while (found := answer_in(received)) is None:
            received += connection.recv(65_536)
        return found[0]

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            raise
        self._open.append(connection)
        return connection

    def close(self) -> None:
        """Close all connections."""
        for connection in self._open:
            connection.close()


class Pipeline(asyncio.Protocol):
    """One connection that many tasks share: answers come in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        """Keep it."""
        self.transport = transport
        self._loop = asyncio.get_running_loop()

    def ask(self, *words: Any) -> asyncio.Future[Any]:
        """Send one request; its answer comes later."""
        waiting: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(waiting)
        self.transport.write(command(*words))
        return waiting

    def data_received(self, data: bytes) -> None:
        """Complete what is whole."""
        self._received += data
        while self._received and (found := answer_in(self._received)) is not None:
            self._received = self._received[found[1] :]
            self._waiting.popleft().set_result(found[0])


class AsyncByHandRedis:
    """For tasks."""

    def __init__(self, pipelines: list[Pipeline], scripts: tuple[str, str]) -> None:
        self._pipelines, (self._hold, self._confirm) = pipelines, scripts
        self._turn = 0

    @classmethod
    async def open(cls, path: str, connections: int) -> Self:
        """Connect."""
        loop = asyncio.get_running_loop()
        made = [(await loop.create_unix_connection(Pipeline, path))[1] for _ in range(connections)]
        hold, confirm = [str(await made[0].ask("SCRIPT", "LOAD", text)) for text in (HOLD, CONFIRM)]
        return cls(made, (hold, confirm))

    async def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> Held:
        """Take units until a deadline, or raise."""
        one = draft(pool, quantity, ttl, op)
        name, _, *rest = hold_call(one)
        return granted(one, await self._next().ask(name, self._hold, *rest))

    async def confirm(self, held: Held, /, *, op: str) -> None:
        """End a hold for good, or raise."""
        name, _, *rest = confirm_call(ending(held, op))
        if await self._next().ask(name, self._confirm, *rest) is None:
            raise NotGranted(held.id)

    async def close(self) -> None:
        """Close all connections."""
        for pipeline in self._pipelines:
            pipeline.transport.close()

    def _next(self) -> Pipeline:
        self._turn += 1
        return self._pipelines[self._turn % len(self._pipelines)]


@contextmanager
def redis_server(directory: Path) -> Iterator[tuple[str, int] | None]:
    """A server of its own that syncs before it answers: the path of its socket and its process id; None if it is not installed."""
    if shutil.which(PROGRAM) is None:
        yield None
        return
    with (
        TemporaryDirectory(prefix="bench-") as short,  # the path of a socket must be
        TemporaryDirectory(prefix="redis-", dir=directory) as data,
    ):
        path, place = f"{short}/socket", Path(data).resolve()
        settings = {"port": 0, "unixsocket": path, "dir": place, "appendonly": "yes", "appendfsync": "always",
                    "save": "", "auto-aof-rewrite-percentage": 0, "logfile": place / "log"}  # fmt: skip
        words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        with subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL) as running:
            try:
                wait_until_it_answers(path)
                yield path, running.pid
            finally:
                running.terminate()


def wait_until_it_answers(path: str) -> None:
    """Fail if it takes too long."""
    until = monotonic() + PATIENCE
    while True:
        try:
            with closing(ByHandRedis(path)) as store:
                store.ask("PING")
            return
        except OSError as error:
            if monotonic() > until:
                raise BenchFailed(f"redis does not answer: {error}") from error
        sleep(0.02)
