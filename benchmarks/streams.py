"""Streams of one api process: ``python -m benchmarks.streams``.

Plays the engine's part with its own ``Speech``: every piece of text carries the time when the model
gave it, and readers over real sockets compare. Then streams that wait are opened by the thousand,
and short ones come and go.
"""

import asyncio
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2

from orchestrator.commands import Cancel, ConfirmCancel, CreateRun, StartTurn
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


class Row(NamedTuple):
    """``begin_within_s``: 0 means that all models speak in the same instant, over and over."""

    runs: int
    readers: int
    every_s: float
    begin_within_s: float = 0


ROWS = (
    Row(1, 1, 0.05),
    Row(100, 1, 0.1, begin_within_s=2),
    Row(500, 1, 0.5, begin_within_s=2),
    Row(500, 1, 0.5),
    Row(1, 500, 0.1),
)
HELD = (1000, 5000)
SHORT = 20_000
SHORT_AT_ONCE = 100


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


async def read(reader: asyncio.StreamReader, delays_s: list[float]) -> None:
    """Notes how old each piece of text is when it arrives."""
    while piece := await reader.read(65_536):
        now = time.perf_counter()
        delays_s += [now - float(stamp) for stamp in STAMP.findall(piece)]


async def connect(port: int, ref: RunRef) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """An open stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = f"/v1/threads/{ref.thread_id}/runs/{ref.run_id}/events"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.readuntil(b"event: thread.run.created")
    return reader, writer


async def speak(speech: Speech, row: Row) -> int:
    """A model that speaks for a while; returns how many pieces it has said."""
    await asyncio.sleep(random.uniform(0, row.begin_within_s))  # noqa: S311
    ends_at, said = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < ends_at:
        speech.hear(TextDelta(f"<{time.perf_counter()}>"))
        said += 1
        await asyncio.sleep(row.every_s)
    await speech.end()
    return said


async def commands(store: ValkeyStore) -> int:
    """How many commands the store has executed, those inside of scripts included."""
    info = (await store.pipeliner.call("INFO", "commandstats")).decode()
    return sum(map(int, re.findall(r"calls=(\d+)", info)))


async def measure(store: ValkeyStore, port: int, pid: int, row: Row) -> None:
    """One row: so many runs with so many readers each."""
    runs, readers = row.runs, row.readers
    speeches = [await new_run(store) for _ in range(runs)]
    streams = [await connect(port, ref) for ref, _ in speeches for _ in range(readers)]
    delays_s: list[float] = []
    reading = [asyncio.create_task(read(reader, delays_s)) for reader, _ in streams]
    before, before_s = await commands(store), cpu_s(pid)
    speaking = (speak(speech, row) for _, speech in speeches)
    said = sum(await asyncio.gather(*speaking))
    async with asyncio.timeout(SECONDS):
        while len(delays_s) < said * readers:  # noqa: ASYNC110 - many tasks add to them
            await asyncio.sleep(0.1)
    used = await commands(store) - before
    each_us = (cpu_s(pid) - before_s) / (said * readers) * 1e6
    for task, (_, writer) in zip(reading, streams, strict=True):
        task.cancel()
        writer.close()
    cuts = statistics.quantiles(delays_s, n=100)
    print(
        f"{runs:>6} runs x {readers:<4} readers {said * readers / SECONDS:>8.0f} events/s"
        f"   {'in step' if not row.begin_within_s else '':<7}"
        f"   p50 {cuts[49] * 1000:>6.1f} ms   p99 {cuts[98] * 1000:>6.1f} ms"
        f"   {used / said:>5.1f} commands a piece   {each_us:>4.0f} us of the api's CPU an event",
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


async def come_and_go(store: ValkeyStore, port: int, pid: int) -> None:
    """Short streams, a tenth of them dropped early, and what the process has left of them."""
    await come_and_go_once(store, port)
    await asyncio.sleep(2)
    before_kb, before_files = memory_kb(pid), open_files(pid)
    began = time.perf_counter()
    for _ in range(SHORT // SHORT_AT_ONCE):
        await come_and_go_once(store, port)
    took_s = time.perf_counter() - began
    await asyncio.sleep(2)
    listeners = (await store.pipeliner.call("CLIENT", "LIST", "TYPE", "pubsub")).splitlines()
    files, grown_kb = open_files(pid) - before_files, memory_kb(pid) - before_kb
    print(
        f"{SHORT:>6} short streams: {SHORT / took_s:.0f}/s; left over: {len(listeners)}"
        f" subscription, {files} files, {grown_kb} kB",
        flush=True,
    )


async def come_and_go_once(store: ValkeyStore, port: int) -> None:
    """The readers of one run, from its begin to its end."""
    ref, _ = await new_run(store)
    streams = await asyncio.gather(*(connect(port, ref) for _ in range(SHORT_AT_ONCE)))
    for _, writer in streams[::10]:
        writer.close()
    await change_run(store, ref, Cancel(watchdog_ms=5_000))
    await change_run(store, ref, ConfirmCancel())
    staying = [reader for number, (reader, _) in enumerate(streams) if number % 10]
    await asyncio.gather(*(reader.readuntil(b"event: done") for reader in staying))
    for _, writer in streams:
        writer.close()


def cpu_s(pid: int) -> float:
    """What a process has used of the CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(pid: int) -> int:
    """How many files and sockets a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


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
                    await measure(store, port, pid, row)
                await come_and_go(store, port, pid)
                for count in HELD:
                    await hold(store, port, pid, count)
        finally:
            await store.close()
            server.stop()


if __name__ == "__main__":
    asyncio.run(main())
