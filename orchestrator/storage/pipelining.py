"""One connection's round trip for many callers: calls that are made together travel together.

A command that travels alone costs 90 to 170 µs of CPU in redis-py, one of a hundred in a pipeline
10 µs; and under ``appendfsync always`` a pipeline is one fsync, whatever it holds.
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from orchestrator.errors import StoreUnavailable

Argument = str | bytes | int
Command = tuple[Argument, ...]

MAX_UNDER_WAY: Final = 3
"""Pipelines on the wire at once. More of them are smaller, and cost more CPU per command."""

MAX_BATCH: Final = 512
"""Commands per pipeline, so that a burst does not keep one reader waiting for all the others."""

NOT_NOW: Final = (ReadOnlyError, OutOfMemoryError, ClusterDownError, TryAgainError)
"""Replies that say that the server is in no state to serve us; the command did nothing."""


@dataclass(frozen=True, slots=True)
class _Call:
    packed: tuple[bytes, ...]
    replies: "asyncio.Future[list[Any]]"


class Pipeliner:
    """Sends commands of concurrent callers in shared pipelines (not transactions).

    The client must speak RESP2 (replies are lists as the protocol has them) and must not retry:
    whoever may repeat a write decides that. A caller that is cancelled disturbs nobody; its
    commands may have been executed.
    """

    def __init__(self, client: Redis, scripts: Sequence[str] = ()) -> None:
        self._pool = client.connection_pool
        self._scripts = tuple(_pack(("SCRIPT", "LOAD", text)) for text in scripts)
        self._waiting: deque[_Call] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_called = False

    async def call(self, *command: Argument) -> Any:
        """The reply to one command. Raises as ``group``."""
        return (await self.group([command]))[0]

    async def group(self, commands: Iterable[Command]) -> list[Any]:
        """The replies to several commands, executed in this order with nothing of ours in between.

        Raises ``StoreUnavailable`` when the connection failed (then nothing is known about what was
        executed) and when the server is read-only, full or down; the error of the first command
        that the server refused, after all of them were executed.
        """
        packed = tuple(map(_pack, commands))
        if not packed:
            return []
        replies = await self._submit(packed)
        lost = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if lost:
            again = (*self._scripts, *(packed[i] for i in lost))
            for i, reply in zip(lost, (await self._submit(again))[-len(lost) :], strict=True):
                replies[i] = reply
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise _unavailable(reply) if _is_not_now(reply) else reply
        return replies

    async def close(self) -> None:
        """Wait for what is under way. The client is the caller's."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _submit(self, packed: tuple[bytes, ...]) -> "asyncio.Future[list[Any]]":
        loop = asyncio.get_running_loop()
        call = _Call(packed, loop.create_future())
        self._waiting.append(call)
        if not self._is_called:
            self._is_called = True
            loop.call_soon(self._flush)
        return call.replies

    def _flush(self) -> None:
        self._is_called = False
        while self._waiting and len(self._under_way) < MAX_UNDER_WAY:
            if batch := self._cut():
                task = asyncio.create_task(self._send(batch))
                self._under_way.add(task)
                task.add_done_callback(self._ended)

    def _cut(self) -> list[_Call]:
        batch: list[_Call] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0].packed) <= MAX_BATCH):
            call = self._waiting.popleft()
            if not call.replies.done():
                batch.append(call)
                size += len(call.packed)
        return batch

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._flush()

    async def _send(self, batch: list[_Call]) -> None:
        try:
            replies = await self._exchange([packed for call in batch for packed in call.packed])
        except (RedisError, OSError) as error:
            _fail(batch, error)
        except BaseException as error:
            _fail(batch, error)
            raise
        else:
            start = 0
            for call in batch:
                end = start + len(call.packed)
                if not call.replies.done():
                    call.replies.set_result(replies[start:end])
                start = end

    async def _exchange(self, packed: list[bytes]) -> list[Any]:
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(connection.socket_timeout):
                await connection.send_packed_command(packed)
                replies = [await _read_reply(connection) for _ in packed]
            if any(isinstance(reply, ReadOnlyError) for reply in replies):
                # The primary has become a replica: the name may lead to the new one.
                await connection.disconnect()
            return replies
        finally:
            await self._pool.release(connection)


async def _read_reply(connection: AbstractConnection) -> Any:
    """The next reply; ``inf``: under the pipeline's timeout, not its own (4 µs for each)."""
    try:
        return await connection.read_response(timeout=math.inf)
    except ResponseError as refusal:
        return refusal


def _pack(command: Command) -> bytes:
    packed: bytes = pack_command(command)  # type: ignore[arg-type]  # its stub knows tuples of one
    return packed


def _is_not_now(refusal: ResponseError) -> bool:
    return isinstance(refusal, NOT_NOW) or str(refusal).startswith(("MISCONF", "NOREPLICAS"))


def _unavailable(error: BaseException) -> StoreUnavailable:
    reason = str(error) or "no answer in time"
    failure = StoreUnavailable(f"The store does not serve us: {reason}")
    failure.__cause__ = error
    return failure


def _fail(batch: Iterable[_Call], error: BaseException) -> None:
    for call in batch:
        if not call.replies.done():
            call.replies.set_exception(_unavailable(error))
