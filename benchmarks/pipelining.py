"""What a commit costs alone, and among many: ``python -m benchmarks.pipelining``.

Every commit is of the usual size: a run and a step rewritten, one event, one transcript entry, one
timer. CPU is this process's own; the server's is not counted. The target: 256 concurrent commits
cost at most a third of the CPU per commit of the same calls made one by one with redis-py.
"""

import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from orchestrator.decisions import (
    Decision,
    Event,
    EventType,
    PutEntry,
    SetTimer,
    TimerKey,
    TimerKind,
)
from orchestrator.ids import mint
from orchestrator.records import Aggregate, Output, Run, RunSpec, Step, StepStatus, Thread
from orchestrator.settings import Settings
from orchestrator.states import RunStatus
from orchestrator.storage.embedded import start
from orchestrator.storage.pipelining import Command, Pipeliner
from orchestrator.storage.valkey import ValkeyStore, connect, open_store
from orchestrator.store import Loaded

ROUNDS = 7
COMMITS = 2048
AT_ONCE = (1, 8, 64, 256)
TARGET = 1 / 3

Job = tuple[Loaded, Decision]


class OneByOne(Pipeliner):
    """The same calls without pipelining, as redis-py makes them."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self._client = client

    async def close(self) -> None:
        """Give the connection back."""
        await self._client.aclose()

    async def group(self, commands: Iterable[Command]) -> list[Any]:
        """Each command has a round trip of its own."""
        send = self._client.execute_command
        return [await send(*command) for command in commands]  # type: ignore[no-untyped-call]


def new_run(number: int) -> Job:
    """A run that is yet to be written, and the decision that writes it."""
    thread = Thread(id=mint("thread"), created_ms=1)
    run = Run(
        id=mint("run"),
        thread_id=thread.id,
        status=RunStatus.IN_PROGRESS,
        created_ms=number,
        deadline_ms=600_000,
        updated_ms=1,
        generation=1,
    )
    spec = RunSpec(assistant_id=mint("asst"), model="scripted/echo", instructions="Be brief. " * 20)
    step = Step(
        id=mint("step"),
        index=0,
        type="tool_calls",
        status=StepStatus.IN_PROGRESS,
        created_ms=1,
    )
    aggregate = Aggregate(thread=thread, run=run, spec=spec, steps=(step,))
    return Loaded(Aggregate(thread=thread), 1, thread_revision=0), Decision(aggregate)


def changes_of(job: Job, count: int) -> list[Job]:
    """The next commits of the same run."""
    jobs = [job]
    for revision in range(1, count + 1):
        jobs.append(next_change(jobs[-1], revision))
    return jobs[1:]


def next_change(job: Job, revision: int) -> Job:
    """The next commit of the same run."""
    old = job[1].aggregate
    thread, run, (step,) = old.thread, old.run, old.steps
    assert run is not None
    entry = Output(seq=thread.next_seq, run_id=run.id, call_id=mint("call"), text="sunny " * 30)
    new = old.but(
        thread=thread.but(next_seq=thread.next_seq + 1),
        run=run.but(updated_ms=run.updated_ms + 1),
        steps=(step.but(call_ids=(entry.call_id,)),),
    )
    event = Event(
        type=EventType.CALL_SETTLED,
        at_ms=run.updated_ms,
        status=run.status,
        public_status=run.status,
        run=new.run,
    )
    timer = SetTimer(TimerKey(TimerKind.TURN_LEASE, 1), at_ms=2_000_000_000_000)
    effects = (PutEntry(entry), timer)
    return Loaded(old, 1, revision, revision), Decision(new, (event,), effects)


async def measure(store: ValkeyStore, at_once: int) -> tuple[float, float]:
    """CPU and wall time of one commit, in microseconds, with so many under way at once."""
    first = [new_run(number) for number in range(at_once)]
    await asyncio.gather(*(store.commit(*job) for job in first))
    clients = [changes_of(job, COMMITS // at_once) for job in first]
    cpu_start, wall_start = time.process_time(), time.perf_counter()
    await asyncio.gather(*(commit_all(store, jobs) for jobs in clients))
    cpu_s, wall_s = time.process_time() - cpu_start, time.perf_counter() - wall_start
    return cpu_s / COMMITS * 1e6, wall_s / COMMITS * 1e6


async def commit_all(store: ValkeyStore, jobs: list[Job]) -> None:
    """One client: commit after commit."""
    for job in jobs:
        await store.commit(*job)


async def main() -> None:
    """Measure in turns, so that a busy moment of the machine touches all rows alike."""
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        server = start(Path(folder))
        store = await open_store(Settings(redis_url=server.url))
        shared, alone = store.pipeliner, OneByOne(connect(server.url))
        try:
            await measure(store, 1)  # the scripts are loaded now
            for _ in range(ROUNDS):
                store.pipeliner = alone
                figures["redis-py, one by one"].append(await measure(store, 1))
                store.pipeliner = shared
                for at_once in AT_ONCE:
                    figures[f"{at_once} at once"].append(await measure(store, at_once))
        finally:
            await alone.close()
            await store.close()
            server.stop()
    report(figures)


def report(figures: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """The medians as a table, and the verdict."""
    cpu_us = {row: statistics.median(cpu for cpu, _ in rounds) for row, rounds in figures.items()}
    wall_us = {
        row: statistics.median(wall for _, wall in rounds) for row, rounds in figures.items()
    }
    first, *_, last = figures
    print(f"{'commits':<22}{'CPU µs each':>12}{'wall µs each':>14}{'CPU, share':>12}")
    for row in figures:
        share = cpu_us[row] / cpu_us[first]
        print(f"{row:<22}{cpu_us[row]:>12.0f}{wall_us[row]:>14.0f}{share:>12.2f}")
    verdict = "reached" if cpu_us[last] <= TARGET * cpu_us[first] else "missed"
    print(f"target for {last}: at most {TARGET:.2f} of {first}: {verdict}")


if __name__ == "__main__":
    asyncio.run(main())
