"""A slow line between a worker and the queue server, with a look at the moments of a pop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

DELAY_S: Final = 0.01
"""Each way."""


class SlowLine:
    """Passes everything on, a little later. ``on_pop`` is called when the server has moved a job to
    the intermediate list, ``on_begin`` when it knows who has it; before the worker hears of that.
    """

    def __init__(self, server_port: int) -> None:
        self.port = 0
        self.on_pop: Callable[[], None] = lambda: None
        self.on_begin: Callable[[], None] = lambda: None
        self.server_port = server_port
        """Where new connections go."""
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the worker."""
        if task := asyncio.current_task():
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        asked = bytearray()

        def see_reply(data: bytes) -> None:
            if b"BLMOVE" in asked and b"call_" in data:
                self.on_pop()
            if b"rq:execution:" in asked:
                self.on_begin()
            asked.clear()

        ways = {
            asyncio.create_task(_carry(reader, far_writer, asked.extend)),
            asyncio.create_task(_carry(far_reader, writer, see_reply)),
        }
        try:
            with suppress(asyncio.CancelledError):  # which the server would take for a fault
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.transport.abort()
            far_writer.transport.abort()

    async def end(self) -> None:
        """Hang up."""
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, see: Callable[[bytes], None]
) -> None:
    while data := await reader.read(65536):
        see(data)
        await asyncio.sleep(DELAY_S)
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def slow_line(server_port: int) -> AsyncIterator[SlowLine]:
    """A line to the server on this port of loopback."""
    line = SlowLine(server_port)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    async with server:
        try:
            yield line
        finally:
            await line.end()
