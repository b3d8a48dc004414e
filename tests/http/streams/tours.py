"""The stream helpers of all SDKs, each in a process of its own that plays scenarios."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.http.conformance.sdks import SDKS, Sdk

TOURS: Final = {
    "openai_python.py": "openai_streams.py",
    "openai_node.mjs": "openai_streams.mjs",
    "azure_python.py": "azure_streams.py",
}
HELPERS: Final = (
    *(replace(sdk, tour=TOURS[sdk.tour]) for sdk in SDKS),
    *(
        replace(sdk, name="openai (Python, async)", tour="openai_async_streams.py")
        for sdk in SDKS
        if sdk.pins is None
    ),
)


@asynccontextmanager
async def tour(
    helper: Sdk, sdk_cache: Path, scenarios: list[dict[str, Any]]
) -> AsyncIterator[Process]:
    """A helper that plays these scenarios."""
    process = await asyncio.create_subprocess_exec(
        *helper.command(sdk_cache), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(scenarios).encode())
        process.stdin.close()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def gathered(process: Process) -> list[dict[str, Any]]:
    """What it gathered; what it complains of is told when it fails."""
    told, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    results: list[dict[str, Any]] = json.loads(told)
    return results


@asynccontextmanager
async def byte_by_byte(address: str) -> AsyncIterator[str]:
    """A way to the server on which every byte of an answer travels alone."""
    url = httpx2.URL(address)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer, request = await asyncio.open_connection(url.host, url.port)
        forth = asyncio.create_task(_pass_on(reader, request, 65_536))
        with suppress(OSError):
            await _pass_on(answer, writer, 1)
        forth.cancel()
        for end in (writer, request):
            end.close()

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size_bytes: int
) -> None:
    while piece := await reader.read(size_bytes):
        writer.write(piece)
        await asyncio.sleep(0)
    writer.close()
