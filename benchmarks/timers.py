"""Timers that are all due at once: ``python -m benchmarks.timers``.

Half of them are the deadlines of runs, half the pauses of calls that are to be tried again. Several
processes act on them at once; one is stopped with a batch in its hands until others have taken it
as well, and then goes on. The logs tell how often each run expired and each call was sent again.
"""

import argparse
import asyncio
import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import synchronize
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from benchmarks.engineless import LONG_MS, make_round, make_run, many, own_store
from orchestrator.commands import RetryCall
from orchestrator.decisions import Event, EventType, SendCall, TimerKind
from orchestrator.housekeeping.timers import BATCH, fire_due
from orchestrator.records import ToolSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.storage.valkey import ValkeyStore, open_store
from orchestrator.store import DueTimer, RunRef

CALLS: Final = 10
"""Calls that one run waits for."""

TICK_S: Final = 0.2
PATIENCE_S: Final = 120
TOOL: Final = ToolSpec(name="look_up", side_effects="idempotent")


@dataclass(frozen=True, slots=True)
class Toll:
    """What came of it. ``expired``, ``sent``: how many runs and calls it happened to how often, by
    the logs; ``parcels``: the same of the calls by the outbox; ``busy``: threads of expired runs
    that are not free; ``left``: timers that nobody has acted on; ``exits``: of the processes, 0 if
    nothing failed in them.
    """

    expired: Counter[int]
    sent: Counter[int]
    parcels: Counter[int]
    busy: int
    left: int
    exits: tuple[int | None, ...]
    took_s: float

    def is_once(self) -> bool:
        """Whether each timer had its effect, and had it once."""
        is_clean = not (self.busy or self.left or any(self.exits))
        return is_clean and {*self.expired, *self.sent, *self.parcels} == {1}


class StoppedStore:
    """A store whose user is stopped just when it has taken its first timers."""

    def __init__(self, store: ValkeyStore) -> None:
        self._store = store
        self._is_due = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def take_due(self, limit: int, hold_ms: int) -> tuple[DueTimer, ...]:
        """Timers; it may be a while before anything is done about the first of them."""
        due = await self._store.take_due(limit, hold_ms)
        if due and self._is_due:
            self._is_due = False
            os.kill(os.getpid(), signal.SIGSTOP)
        return due


async def play(timers: int, keepers: int, pause_s: float) -> Toll:
    """All of it, on a store of its own."""
    async with own_store() as (settings, store):
        overdue = await many(timers // 2, lambda _: make_run(store, TOOL, ttl_ms=1))
        waiting = await many(timers // 2 // CALLS, lambda _: _run_with_retries(store))
        began_ms = await store.now_ms()
        exits = await _keep(settings, store, len(waiting), keepers, pause_s)
        return await _toll(store, overdue, waiting, exits, began_ms)


async def _run_with_retries(store: ValkeyStore) -> RunRef:
    ref, call_ids = await make_round(store, TOOL, CALLS)
    for call_id in call_ids:
        await change_run(store, ref, RetryCall(call_id, 1, "Not now.", "not now", after_ms=1))
    return ref


# -- the processes --------------------------------------------------------------------------------


async def _keep(
    settings: Settings, store: ValkeyStore, kept: int, keepers: int, pause_s: float
) -> tuple[int | None, ...]:
    """Let them act until nothing is left; the first is stopped for a while. How they ended."""
    spawn = multiprocessing.get_context("spawn")
    barrier, stop = spawn.Barrier(keepers + 1), spawn.Event()
    url = settings.redis_url.get_secret_value()
    processes = [
        spawn.Process(target=_keeper, args=(url, barrier, stop, n == 0)) for n in range(keepers)
    ]
    for process in processes:
        process.start()
    try:
        await asyncio.to_thread(barrier.wait, PATIENCE_S)
        await _go_on(processes[0], pause_s)
        await _until_nothing_is_left(store, kept)
        stop.set()
        for process in processes:
            await asyncio.to_thread(process.join, PATIENCE_S)
        return tuple(process.exitcode for process in processes)
    finally:
        for process in processes:
            process.kill()


def _keeper(
    url: str, barrier: synchronize.Barrier, stop: synchronize.Event, is_stopped: bool
) -> None:
    """What engines do about timers, and nothing else of them."""

    async def keep() -> None:
        real = await open_store(Settings(redis_url=url))
        store: Any = StoppedStore(real) if is_stopped else real
        barrier.wait(PATIENCE_S)
        while not stop.is_set():
            while await fire_due(store) == BATCH and not stop.is_set():
                pass
            await asyncio.sleep(TICK_S)
        await real.close()

    asyncio.run(keep())


async def _go_on(process: SpawnProcess, pause_s: float) -> None:
    """Let the stopped process go on after the pause."""
    pid = process.pid or 0
    ends = os.WSTOPPED | os.WEXITED | os.WNOWAIT
    await asyncio.to_thread(os.waitid, os.P_PID, pid, ends)
    await asyncio.sleep(pause_s)
    os.kill(pid, signal.SIGCONT)


async def _until_nothing_is_left(store: ValkeyStore, kept: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await _timers_left(store, kept):  # noqa: ASYNC110 - in other processes
            await asyncio.sleep(TICK_S)


async def _timers_left(store: ValkeyStore, kept: int) -> int:
    """Pauses and deadlines that nobody has acted on, but for ``kept`` that are not due."""
    homes = store.keys.partitions
    ranges = await store.pipeliner.group(("ZRANGE", home.timers, 0, -1) for home in homes)
    kinds = Counter(member.partition(b"|")[0].decode() for found in ranges for member in found)
    return kinds[TimerKind.CALL_RETRY] + kinds[TimerKind.DEADLINE] - kept


# -- what came of it ------------------------------------------------------------------------------


async def _toll(
    store: ValkeyStore,
    overdue: Sequence[RunRef],
    waiting: Sequence[RunRef],
    exits: tuple[int | None, ...],
    began_ms: int,
) -> Toll:
    expired, sent = Counter[int](), Counter[int]()
    busy, ended_ms = 0, began_ms
    for ref in overdue:
        ends = await _told(store, ref, EventType.RUN_EXPIRED)
        expired[len(ends)] += 1
        busy += (await store.load(ref.thread_id)).aggregate.thread.active_run_id is not None
        ended_ms = max(ended_ms, *(event.at_ms for event in ends))
    for ref in waiting:
        again = [
            x for x in await _told(store, ref, EventType.CALL_DISPATCHED) if x.at_ms >= began_ms
        ]
        sent.update(Counter(event.call.id for event in again if event.call).values())
        ended_ms = max(ended_ms, *(event.at_ms for event in again))
    parcels = Counter(await _parcels(store)).values()
    left = await _timers_left(store, kept=len(waiting))
    took_s = (ended_ms - began_ms) / 1000
    return Toll(expired, sent, Counter(n - 1 for n in parcels), busy, left, exits, took_s)


async def _told(store: ValkeyStore, ref: RunRef, kind: EventType) -> list[Event]:
    return [event for _, event in await store.read_events(ref) if event.type is kind]


async def _parcels(store: ValkeyStore) -> list[str]:
    """The calls on the outbox, each as often as it was sent (but for the looks after it)."""
    sent: list[str] = []
    while parcels := await store.take_parcels(1000, LONG_MS):
        orders = [x.order for x in parcels if isinstance(x.order, SendCall)]
        sent += [order.call_id for order in orders if not order.is_repeat]
    return sent


def main() -> None:
    """Play it and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timers")
    parser.add_argument("--timers", type=int, default=50_000)
    parser.add_argument("--keepers", type=int, default=4)
    parser.add_argument("--pause-s", type=float, default=5.0)
    asked = parser.parse_args()
    toll = asyncio.run(play(asked.timers, asked.keepers, asked.pause_s))
    rate = asked.timers / toll.took_s
    print(
        f"{asked.timers} timers, {asked.keepers} processes: {toll.took_s:.1f} s, {rate:.0f} per s"
    )
    print(toll)
    if not toll.is_once():
        sys.exit("Not each of them had its effect once.")


if __name__ == "__main__":
    main()
