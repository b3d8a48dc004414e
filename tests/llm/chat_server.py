"""A chat completions server over a real socket that answers exactly what a test tells it to."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

DROP: Final = b"drop"
"""Close the connection in the middle of the body."""

HANG: Final = b"hang"
"""Send nothing more until the client goes away."""

DONE: Final = b"data: [DONE]\n\n"

EVENT_STREAM: Final = {"content-type": "text/event-stream"}


def event(chunk: Any) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def text_event(text: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def stop_event(finish_reason: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    pieces: tuple[bytes, ...]
    status: int
    headers: dict[str, str]


@dataclass
class ChatServer:
    """Answers requests in the order in which their answers were prepared."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    client_left: asyncio.Event = field(default_factory=asyncio.Event)
    prepared: deque[Prepared] = field(default_factory=deque)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answers(
        self, *pieces: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """The next answer: each piece is one write, ``DROP`` and ``HANG`` are acts."""
        self.prepared.append(Prepared(pieces, status, headers or EVENT_STREAM))

    def refuses(self, status: int, error: Any, headers: dict[str, str] | None = None) -> None:
        """The next answer is an error."""
        body = json.dumps({"error": error}).encode()
        self.answers(
            body, status=status, headers={"content-type": "application/json"} | (headers or {})
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.client_left.set()
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        self.asked.append(Asked(head[0], headers, json.loads(body)))
        answer = self.prepared.popleft()
        lines = {**answer.headers, "transfer-encoding": "chunked"}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {answer.status} Prepared\r\n{text}\r\n".encode())
        for piece in answer.pieces:
            if piece is DROP:
                return False
            if piece is HANG:
                await reader.read(1)
                return False
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def serving() -> AsyncIterator[ChatServer]:
    """A server on a free loopback port."""
    server = ChatServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server
