"""A network between client and server that loses answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class LossyProxy:
    """Passes requests on; of answers it loses as many as it is told to, after they were made."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._to_lose = 0
        self._connections: set[asyncio.Task[None]] = set()
        self.requests = 0
        """Requests that reached the server."""

    def lose(self, answers: int = 1) -> None:
        """Break the connection in place of the next answers."""
        self._to_lose = answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        if task := asyncio.current_task():
            self._connections.add(task)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        tasks = {
            asyncio.create_task(self._carry_requests(reader, far_writer)),
            asyncio.create_task(self._carry_answers(far_reader, writer)),
        }
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for side in (writer, far_writer):
            side.close()
            with suppress(OSError):
                await side.wait_closed()

    async def end(self) -> None:
        """Wait until the clients have hung up."""
        await asyncio.gather(*self._connections)

    async def _carry_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            self.requests += data.count(b" HTTP/1.1\r\n")
            writer.write(data)

    async def _carry_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            if self._to_lose:
                self._to_lose -= 1
                return
            writer.write(data)


@asynccontextmanager
async def lossy_proxy(port: int) -> AsyncIterator[tuple[LossyProxy, int]]:
    """The proxy of a server's port, and the port of the proxy."""
    proxy = LossyProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        yield proxy, server.sockets[0].getsockname()[1]
        await proxy.end()
