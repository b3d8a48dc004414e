"""Streams through a reverse proxy that has little patience."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx2
import pytest
from openai.types.beta.threads import Run

from orchestrator.settings import Settings
from orchestrator.storage.embedded import find_free_port
from tests.http.driver import Asked, Driver
from tests.http.streams.frames import COMMENT, names, read_frame
from tests.waiting import until

PATIENCE_S: Final = 2
COMMENTS: Final = 9
CONFIGURATION: Final = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {address};
      proxy_read_timeout {patience_s}s;
    }}
  }}
}}
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"keep_alive_s": 1.25 * PATIENCE_S / COMMENTS})


@pytest.fixture
async def proxied(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    """The api behind nginx, which buffers, and ends what is silent for two seconds."""
    if shutil.which("nginx") is None:
        pytest.skip("this system has no nginx")
    port = find_free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nginx.conf"
        values = {"folder": folder, "port": port, "address": address, "patience_s": PATIENCE_S}
        file.write_text(CONFIGURATION.format(**values))
        nginx = await asyncio.create_subprocess_exec("nginx", "-c", str(file), "-p", folder)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await until(lambda: is_up(http))
            yield http
        nginx.terminate()
        await nginx.wait()


async def is_up(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/healthz")).status_code == 200
    except httpx2.ConnectError:
        return False


async def test_silence_longer_than_a_proxy_waits_does_not_cut_the_stream(
    proxied: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    """First a worker takes its time, then the model; all is seen through the proxy as it comes."""
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    (call_id,) = await driver.asks(run, Asked("look_up"), workers=("look_up",))
    raw = b""
    async with proxied.stream("GET", path) as response:
        pieces = response.aiter_raw()
        raw = await read_silence(pieces, b"")
        await driver.works(run, call_id, "known")
        raw = await read_silence(pieces, raw)
        await driver.answers(run, "So it is.")
        raw += b"".join([piece async for piece in pieces])
    blocks = raw.removesuffix(b"\n\n").split(b"\n\n")
    told = names([read_frame(block) for block in blocks])
    assert told[-2:] == ["run.completed", "done"]
    assert told.count("run.queued") == 2


async def read_silence(pieces: AsyncIterator[bytes], before: bytes) -> bytes:
    """What came, with as many keep-alives more as are sent while a proxy loses its patience."""
    raw, enough = before, before.count(COMMENT) + COMMENTS
    while raw.count(COMMENT) < enough:
        raw += await anext(pieces)
    return raw
