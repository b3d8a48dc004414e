"""A network between client and server that loses requests and answers."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

GATEWAY_TIMEOUT: Final = (
    b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Loss:
    """What becomes of a request: it is lost before it arrives, or its answer after it was made. The
    connection is cut, or a gateway on the way answers in the server's place.
    """

    is_before: bool
    is_cut: bool


Fate = Callable[[bytes], Loss | None]
"""The loss of a request, by its head; ``None``: it goes through."""


class LossyProxy:
    """Passes on what is not lost."""

    def __init__(self, port: int) -> None:
        self.server_port = port
        self.requests = 0
        """Requests that reached the server."""
        self.losses = 0
        """Requests that had another fate than to go through."""
        self.fate: Fate = lambda _: None
        """Decides about each request."""
        self._to_lose = 0
        self._connections: set[asyncio.Task[None]] = set()

    def lose(self, answers: int = 1) -> None:
        """Break the connection in place of the next answers."""
        self._to_lose = answers

    def takes_answer(self) -> bool:
        """Whether the answer that is coming is one of those that ``lose`` meant."""
        is_lost = self._to_lose > 0
        self._to_lose -= is_lost
        return is_lost

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        if task := asyncio.current_task():
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        await _Connection(self, reader, writer).carry()

    async def end(self) -> None:
        """Hang up, whether or not the clients have."""
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _Connection:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(
        self, proxy: LossyProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._loss: Loss | None = None

    async def carry(self) -> None:
        """Until one side hangs up or something is lost."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._proxy.server_port)
        tasks = {
            asyncio.create_task(self._carry_requests(far_writer)),
            asyncio.create_task(self._carry_answers(far_reader)),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._writer.close()
            far_writer.transport.abort()

    async def _carry_requests(self, far_writer: asyncio.StreamWriter) -> None:
        while data := await self._reader.read(65536):
            if data.startswith((b"GET ", b"POST ", b"DELETE ")):
                self._loss = self._proxy.fate(data)
                self._proxy.losses += self._loss is not None
                if self._loss and self._loss.is_before:
                    await self._refuse(data, is_cut=self._loss.is_cut)
                    return
                self._proxy.requests += 1
            far_writer.write(data)

    async def _carry_answers(self, far_reader: asyncio.StreamReader) -> None:
        while data := await far_reader.read(65536):
            if self._proxy.takes_answer():
                return
            if self._loss:
                if not self._loss.is_cut:
                    self._writer.write(GATEWAY_TIMEOUT)
                return
            self._writer.write(data)

    async def _refuse(self, data: bytes, *, is_cut: bool) -> None:
        """The request goes no further. A gateway has read it whole before it answers."""
        if is_cut:
            return
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        await self._reader.readexactly(int(length[1]) - len(body) if length else 0)
        self._writer.write(GATEWAY_TIMEOUT)


@asynccontextmanager
async def lossy_proxy(port: int) -> AsyncIterator[tuple[LossyProxy, int]]:
    """The proxy of a server's port, and the port of the proxy."""
    proxy = LossyProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        try:
            yield proxy, server.sockets[0].getsockname()[1]
        finally:
            await proxy.end()
