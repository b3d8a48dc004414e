"""A strict reader of event streams: it knows nothing but the framing that all SDKs understand."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

COMMENT = b": keep-alive\n"


@dataclass(frozen=True)
class Frame:
    """One event; ``data`` is parsed, but for ``[DONE]``."""

    event: str
    data: Any
    id: str | None = None


async def frames_of(response: httpx2.Response) -> AsyncIterator[Frame]:
    """The events as they come."""
    rest = b""
    async for piece in response.aiter_raw():
        rest += piece
        *blocks, rest = rest.split(b"\n\n")
        for block in blocks:
            yield read_frame(block)
    assert rest == b""


def read_frame(block: bytes) -> Frame:
    """One block between empty lines."""
    while block.startswith(COMMENT):
        block = block.removeprefix(COMMENT)
    lines = block.decode().split("\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert list(fields) in (["event", "data"], ["id", "event", "data"]), block
    assert len(block.decode().splitlines()) == len(fields), "some clients see more lines"
    data = fields["data"]
    return Frame(fields["event"], data if data == "[DONE]" else json.loads(data), fields.get("id"))


@asynccontextmanager
async def reading(
    http: httpx2.AsyncClient, method: str, path: str, **content: Any
) -> AsyncIterator[AsyncIterator[Frame]]:
    """The events of one request, which must be answered with a stream."""
    async with http.stream(method, path, **content) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        yield frames_of(response)


async def read_all(http: httpx2.AsyncClient, method: str, path: str, **content: Any) -> list[Frame]:
    """All events of one request, but for the last one, which is always the same."""
    async with reading(http, method, path, **content) as frames:
        *read, done = [frame async for frame in frames]
    assert done == Frame("done", "[DONE]")
    return read


def names(frames: list[Frame]) -> list[str]:
    """What happened, without ``thread.``, deltas counted once."""
    told = [frame.event.removeprefix("thread.") for frame in frames]
    return [
        name
        for number, name in enumerate(told)
        if not (name.endswith(".delta") and number and told[number - 1] == name)
    ]


def joined(frames: list[Frame]) -> str:
    """The text of the deltas."""
    deltas = [frame.data for frame in frames if frame.event == "thread.message.delta"]
    return "".join(delta["delta"]["content"][0]["text"]["value"] for delta in deltas)


def last(frames: list[Frame], name: str) -> Frame:
    """The newest event of this name."""
    return [frame for frame in frames if frame.event == name][-1]
