"""Streams of one api process: ``python -m benchmarks.streams``.

Plays the engine's part with its own ``Speech``: every piece of text carries the time when the model
gave it, and readers over real sockets compare. Then streams that wait are opened by the thousand.
"""

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from orchestrator.commands import CreateRun, StartTurn
from orchestrator.engine.speech import Speech
from orchestrator.ids import mint
from orchestrator.llm.protocol import TextDelta
from orchestrator.records import RunSpec, Thread
from orchestrator.settings import Settings
from orchestrator.shell import change_run, create_thread
from orchestrator.storage.embedded import find_free_port
from orchestrator.storage.embedded import start as start_server
from orchestrator.storage.valkey import ValkeyStore, open_store
from orchestrator.store import RunRef

BATCH_S = 0.02
SECONDS = 5.0
STAMP = re.compile(rb"<(\d+\.\d+)>")
ROWS = ((1, 1, 0.05), (100, 1, 0.1), (500, 1, 0.5), (1, 500, 0.1))
"""Runs, readers of each, seconds between two pieces of text."""
HELD = (1000, 5000)


@asynccontextmanager
async def api(store_url: str) -> AsyncIterator[tuple[int, int]]:
    """An api process; gives its port and its pid."""
    port = find_free_port()
    process = start_api(store_url, port)
    try:
        async with httpx2.AsyncClient() as http:
            while True:
                try:
                    await http.get(f"http://127.0.0.1:{port}/healthz")
                except httpx2.TransportError:
                    await asyncio.sleep(0.1)
                else:
                    break
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def start_api(store_url: str, port: int) -> "subprocess.Popen[bytes]":
    """An api on this port, as the command starts it."""
    names = {"REDIS_URL": store_url, "PORT": str(port), "LOG_LEVEL": "WARNING"}
    environment = {**os.environ, **{f"RUNSTATE_{name}": value for name, value in names.items()}}
    return subprocess.Popen([sys.executable, "-m", "api"], env=environment)


async def new_run(store: ValkeyStore) -> tuple[RunRef, Speech]:
    """A run whose model is about to speak."""
    thread = Thread(id=mint("thread"), created_ms=0)
    spec = RunSpec(assistant_id="asst_1", model="none")
    ref = RunRef(thread.id, mint("run"))
    await create_thread(store, thread, CreateRun(ref.run_id, spec, 600_000))
    run = (await change_run(store, ref, StartTurn("e", 600_000))).run
    assert run is not None
    return ref, Speech(store, run, BATCH_S)


async def read(port: int, ref: RunRef, delays_s: list[float]) -> None:
    """A reader that notes how old each piece of text is when it arrives."""
    reader, writer = await connect(port, ref)
    try:
        while piece := await reader.read(65_536):
            now = time.perf_counter()
            delays_s += [now - float(stamp) for stamp in STAMP.findall(piece)]
    finally:
        writer.close()


async def connect(port: int, ref: RunRef) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An open stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = f"/v1/threads/{ref.thread_id}/runs/{ref.run_id}/events"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"event: thread.run.created")
    return reader, writer


async def speak(speech: Speech, every_s: float) -> int:
    """A model that speaks for a while; returns how many pieces it has said."""
    ends_at, said = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < ends_at:
        speech.hear(TextDelta(f"<{time.perf_counter()}>"))
        said += 1
        await asyncio.sleep(every_s)
    await speech.end()
    return said


async def commands(store: ValkeyStore) -> int:
    """How many commands the store has executed, those inside of scripts included."""
    info = (await store.pipeliner.call("INFO", "commandstats")).decode()
    return sum(map(int, re.findall(r"calls=(\d+)", info)))


async def measure(store: ValkeyStore, port: int, runs: int, readers: int, every_s: float) -> None:
    """One row: so many runs with so many readers each."""
    speeches = [await new_run(store) for _ in range(runs)]
    delays_s: list[float] = []
    reading = [
        asyncio.create_task(read(port, ref, delays_s))
        for ref, _ in speeches
        for _ in range(readers)
    ]
    await asyncio.sleep(1)
    before = await commands(store)
    said = sum(await asyncio.gather(*(speak(speech, every_s) for _, speech in speeches)))
    used = await commands(store) - before
    await asyncio.sleep(1)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    assert len(delays_s) == said * readers, (len(delays_s), said * readers)
    cuts = statistics.quantiles(delays_s, n=100)
    print(
        f"{runs:>6} runs x {readers:<4} readers {said * readers / SECONDS:>8.0f} events/s"
        f"   p50 {cuts[49] * 1000:>6.1f} ms   p99 {cuts[98] * 1000:>6.1f} ms"
        f"   {used / said:>5.1f} commands for each piece",
        flush=True,
    )


async def hold(store: ValkeyStore, port: int, pid: int, count: int) -> None:
    """Opens streams that wait, each of a run of its own, and weighs the process."""
    refs = [(await new_run(store))[0] for _ in range(count)]
    before_kb = memory_kb(pid)
    began = time.perf_counter()
    streams = []
    for start in range(0, count, 100):
        streams += await asyncio.gather(*(connect(port, ref) for ref in refs[start : start + 100]))
    took_s = time.perf_counter() - began
    each_kb = (memory_kb(pid) - before_kb) / count
    print(f"{count:>6} waiting streams: opened {count / took_s:.0f}/s, {each_kb:.0f} kB each")
    for _, writer in streams:
        writer.close()
    await asyncio.sleep(2)


def memory_kb(pid: int) -> int:
    """What a process keeps in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+)", status)
    assert match is not None
    return int(match[1])


async def main() -> None:
    """All rows."""
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        settings = Settings(redis_url=server.url)
        store = await open_store(settings)
        try:
            async with api(server.url.get_secret_value()) as (port, pid):
                for row in ROWS:
                    await measure(store, port, *row)
                for count in HELD:
                    await hold(store, port, pid, count)
        finally:
            await store.close()
            server.stop()


if __name__ == "__main__":
    asyncio.run(main())
