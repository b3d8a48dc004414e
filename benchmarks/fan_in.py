"""Answers that arrive together: ``python -m benchmarks.fan_in [--rounds N]``, 5,000 unless told
otherwise.

Each round is a run that waits for eight calls. Several processes, each with a store connection of
its own, answer all of them within two milliseconds; in every other round one call fails and an
operator cancels one. The same processes look for turns to start, as engines do. Counts how often
the next turn of each run was asked for, and how often it was begun.
"""

import argparse
import asyncio
import multiprocessing
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import synchronize
from typing import Final

from benchmarks.engineless import LONG_MS, make_round, many, own_store
from orchestrator.commands import (
    CallResult,
    Outcome,
    ResolveCall,
    StartTurn,
)
from orchestrator.decisions import EventType
from orchestrator.errors import Gone, NotNow
from orchestrator.records import CallState, ToolSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.storage.valkey import ValkeyStore, open_store
from orchestrator.store import RunRef

ROUNDS: Final = 5_000
HANDS: Final = 4
CALLS: Final = 8
WITHIN_S: Final = 0.002
FAILS, IS_CANCELLED = 0, 5
"""The places of these calls, in every other round."""

LIMIT: Final = 1_000
PATIENCE_S: Final = 120
TOOL: Final = ToolSpec(name="look_up", side_effects="once")


@dataclass(frozen=True, slots=True)
class Round:
    """A run whose calls are all held by a worker."""

    ref: RunRef
    calls: tuple[str, ...]
    is_mixed: bool


@dataclass(frozen=True, slots=True)
class Toll:
    """What came of it: to how many runs it happened how often that their next turn was ``asked``
    for (entries of the ready stream), was ``begun``, and that the round was ``closed``; the states
    of all calls; the processes' exit codes, 0 if no answer was refused. ``spread_ms``: the median
    of the time between a round's first answer and its last.
    """

    asked: Counter[int]
    begun: Counter[int]
    closed: Counter[int]
    states: Counter[CallState]
    exits: tuple[int | None, ...]
    spread_ms: float
    took_s: float

    def is_once(self) -> bool:
        """Whether each round led to one turn."""
        return {*self.asked, *self.begun, *self.closed} == {1} and not any(self.exits)


async def play(rounds: int, hands: int) -> Toll:
    """All rounds, on a store of their own."""
    async with own_store() as (settings, store):

        async def prepare(number: int) -> Round:
            ref, calls = await make_round(store, TOOL, CALLS)
            return Round(ref, calls, is_mixed=number % 2 == 1)

        plan = await many(rounds, prepare)
        while old := await store.take_turns(LIMIT, LONG_MS):
            await store.finish_turns([turn.ticket for turn in old])
        began = time.monotonic()
        asked, exits = await _answer_all(settings, plan, hands)
        took_s = time.monotonic() - began
        asked.update(turn.ref.run_id for turn in await store.take_turns(LIMIT, LONG_MS))
        return await _toll(store, plan, asked, exits, took_s)


# -- the processes --------------------------------------------------------------------------------


async def _answer_all(
    settings: Settings, plan: Sequence[Round], hands: int
) -> tuple[Counter[str], tuple[int | None, ...]]:
    """Let them answer. How often each run's turn was taken, and how the processes ended."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(hands)
    url = settings.redis_url.get_secret_value()
    asked = Counter[str]()
    readers, processes = [], []
    for hand in range(hands):
        reader, writer = spawn.Pipe(duplex=False)
        readers.append(reader)
        share = [(one.ref, _answers(one)[hand::hands]) for one in plan]
        processes.append(spawn.Process(target=_hand, args=(url, share, barrier, writer)))
        processes[-1].start()
        writer.close()  # so that reading ends if the process does
    try:
        for reader, process in zip(readers, processes, strict=True):
            try:
                asked += await asyncio.to_thread(reader.recv)
            except EOFError:
                barrier.abort()
            await asyncio.to_thread(process.join, PATIENCE_S)
        return asked, tuple(process.exitcode for process in processes)
    finally:
        for process in processes:
            process.kill()


Answers = list[CallResult | ResolveCall]


def _answers(one: Round) -> Answers:
    answers: Answers = [CallResult(call, 1, Outcome.SUCCEEDED, "42") for call in one.calls]
    if one.is_mixed:
        failing, cancelled = one.calls[FAILS], one.calls[IS_CANCELLED]
        answers[FAILS] = CallResult(failing, 1, Outcome.FAILED, "no", "no")
        answers[IS_CANCELLED] = ResolveCall(cancelled, "no", CallState.CANCELLED)
    return answers


def _hand(
    url: str,
    share: Sequence[tuple[RunRef, Answers]],
    barrier: synchronize.Barrier,
    writer: "multiprocessing.connection.Connection[Counter[str], None]",
) -> None:
    """Its answers of each round, at the moment of all others'; after them, whatever turns it
    finds.
    """

    async def play() -> Counter[str]:
        store = await open_store(Settings(redis_url=url))
        taken = Counter[str]()
        for ref, answers in share:
            barrier.wait(PATIENCE_S)
            await asyncio.gather(*(_answer(store, ref, answer) for answer in answers))
            taken += await _start_turns(store)
        await store.close()
        return taken

    writer.send(asyncio.run(play()))


async def _answer(store: ValkeyStore, ref: RunRef, answer: CallResult | ResolveCall) -> None:
    await asyncio.sleep(random.uniform(0, WITHIN_S))  # noqa: S311
    await change_run(store, ref, answer)


async def _start_turns(store: ValkeyStore) -> Counter[str]:
    due = await store.take_turns(LIMIT, LONG_MS)
    for turn in due:
        try:
            await change_run(store, turn.ref, StartTurn("engine", LONG_MS))
        except (NotNow, Gone):
            continue
    await store.finish_turns([turn.ticket for turn in due])
    return Counter(turn.ref.run_id for turn in due)


# -- what came of it ------------------------------------------------------------------------------


async def _toll(
    store: ValkeyStore,
    plan: Sequence[Round],
    asked: Counter[str],
    exits: tuple[int | None, ...],
    took_s: float,
) -> Toll:
    begun, closed, states = Counter[int](), Counter[int](), Counter[CallState]()
    spreads_ms = []
    for one in plan:
        events = [event for _, event in await store.read_events(one.ref)]
        told = Counter(event.type for event in events)
        begun[told[EventType.RUN_IN_PROGRESS] - 1] += 1
        closed[told[EventType.STEP_COMPLETED]] += 1
        settled_ms = [event.at_ms for event in events if event.type is EventType.CALL_SETTLED]
        spreads_ms.append(max(settled_ms) - min(settled_ms))
        states.update(call.state for call in (await store.view(one.ref)).calls)
    often = Counter(asked[one.ref.run_id] for one in plan)
    return Toll(often, begun, closed, states, exits, statistics.median(spreads_ms), took_s)


def main() -> None:
    """Play them and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fan_in")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--hands", type=int, default=HANDS)
    asked = parser.parse_args()
    toll = asyncio.run(play(asked.rounds, asked.hands))
    print(f"{asked.rounds} rounds of {CALLS} calls, {asked.hands} processes: {toll.took_s:.0f} s")
    print(toll)
    if not toll.is_once():
        sys.exit("Not each round led to one turn.")


if __name__ == "__main__":
    main()
