"""Runs under fire: ``python -m benchmarks.soak [RUNS] [--stops N]``, 2,000 of them unless told
otherwise.

Starts what ``runstate dev`` starts in a temporary folder, lets many runs pay and look something up
at once, and all the while ends workers at random: kills the worker, the fork that it has, or both,
or tells it to stop. Then counts in the file of the tools' effects: no payment was made twice, and
every run has ended. With ``--stops`` nothing is killed: workers are told to stop, so often, at any
moment, and there are as many runs as that takes. Then not even a look-up is made twice.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from cli.program import Role
from cli.stack import Stack, StackOptions, running_stack
from orchestrator.storage.embedded import find_free_port

RUNS: Final = 2_000
AT_ONCE: Final = 32
WORKERS: Final = 3
KILL_AFTER: Final = 20
"""Executions between two kills: so many, and not seconds, since a worker needs one to start."""

STOP_WITHIN_S: Final = 1.0
"""The longest time between two words to stop."""

STARTS_WITHIN_S: Final = 3.0

LASTS_S: Final = 0.05
WAIT: Final = {"Prefer": "wait=10"}
ENDED: Final = ("completed", "failed", "expired", "cancelled", "incomplete")


@dataclass(frozen=True, slots=True)
class Toll:
    """What was left. ``ended`` counts ``run completed``, ``pay unknown`` and so on; the others what
    was killed, and executions by tool and tag.
    """

    ended: Counter[str]
    kills: Counter[str]
    executions: Counter[str]
    took_s: float

    def most(self, tool: str) -> int:
        """The most executions that one call of the tool had."""
        found = [n for line, n in self.executions.items() if line.startswith(f"{tool}:")]
        return max(found, default=0)

    def is_bearable(self) -> bool:
        """Whether no payment was made twice, each that the ledger calls made was, and it knows of
        each that may have been.
        """
        paid = sum(line.startswith("pay:") for line in self.executions)
        known = self.ended["pay succeeded"]
        return self.most("pay") == 1 and known <= paid <= known + self.ended["pay unknown"]

    def is_unhurt(self) -> bool:
        """Whether each call was made once, and the ledger knows it."""
        ended = {"run completed", "pay succeeded", "look_up succeeded"}
        return set(self.ended) == ended and set(self.executions.values()) == {1}


async def soak(home: Path, runs: int, stops: int | None = None) -> Toll:
    """Play the runs on a stack of their own, or as many as it takes to stop workers so often."""
    options = StackOptions(
        home=home / "data",
        port=find_free_port(),
        workers=WORKERS,
        tools="benchmarks.tools",
        is_isolated=True,
    )
    notes = home / "notes"
    began = time.monotonic()
    async with (
        running_stack(options) as stack,
        httpx2.AsyncClient(base_url=stack.root_url, timeout=60) as http,
    ):
        names = [{"type": "function", "function": {"name": name}} for name in ("pay", "look_up")]
        body = {"model": "scripted/inline", "tools": names}
        assistant = (await http.post("/v1/assistants", json=body)).json()
        if stops is None:
            killer = asyncio.create_task(_kill_at_random(stack, notes))
            tags = iter(range(runs))
        else:
            killer = asyncio.create_task(_stop_at_random(stack, stops))
            tags = itertools.takewhile(lambda _: not killer.done(), itertools.count())
        lanes = (_lane(http, assistant["id"], notes, tags) for _ in range(AT_ONCE))
        ended = sum(await asyncio.gather(*lanes), Counter[str]())
        killer.cancel()
        kills = await killer
    return Toll(ended, kills, _executions(notes), time.monotonic() - began)


async def _lane(
    http: httpx2.AsyncClient, assistant_id: str, notes: Path, tags: Iterator[int]
) -> Counter[str]:
    """One run after another, until the tags are used up; how they and their calls ended."""
    ended = Counter[str]()
    for tag in tags:
        arguments = {"tag": str(tag), "notes": str(notes), "seconds": LASTS_S}
        calls = [{"name": name, "arguments": arguments} for name in ("pay", "look_up")]
        script = json.dumps({"turns": [{"tool_calls": calls}, {"text": "Done."}]})
        messages = [{"role": "user", "content": script}]
        thread = {"assistant_id": assistant_id, "thread": {"messages": messages}}
        run: dict[str, Any] = (await http.post("/v1/threads/runs", json=thread)).json()
        while run["status"] not in ENDED:
            path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
            run = (await http.get(path, headers=WAIT)).json()
        ended[f"run {run['status']}"] += 1
        report = (await http.get(f"/ops/runs/{run['id']}")).json()
        ended.update(f"{call['name']} {call['state']}" for call in report["calls"])
    return ended


async def _kill_at_random(stack: Stack, notes: Path) -> Counter[str]:
    """Until cancelled; returns how often what was killed."""
    kills = Counter[str]()
    with suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(LASTS_S)
            is_time = _executions(notes).total() > KILL_AFTER * (kills.total() + 1)
            busy = [pid for pid in stack.supervisor.pids(Role.WORKER) if children(pid)]
            if is_time and busy:
                kills[_kill(random.choice(busy))] += 1  # noqa: S311
    return kills


async def _stop_at_random(stack: Stack, stops: int) -> Counter[str]:
    """Each worker once, since a second word would end what it is at, and when it has begun to
    serve, since it has nothing to lose before.
    """
    seen_at, told = dict[int, float](), set[int]()
    while len(told) < stops:
        await asyncio.sleep(random.uniform(0, STOP_WITHIN_S))  # noqa: S311
        now = time.monotonic()
        for pid in stack.supervisor.pids(Role.WORKER):
            is_serving = now - seen_at.setdefault(pid, now) > STARTS_WITHIN_S
            if is_serving and pid not in told:
                told.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                break
    return Counter({"worker, told to stop": stops})


def _executions(notes: Path) -> Counter[str]:
    return Counter(notes.read_text().split() if notes.exists() else ())


def _kill(worker: int) -> str:
    forks = children(worker)
    ways = [
        ("worker", [worker], signal.SIGKILL),
        ("fork", forks, signal.SIGKILL),
        ("worker and fork", [worker, *forks], signal.SIGKILL),
        ("worker, told to stop", [worker], signal.SIGTERM),
    ]
    what, victims, how = random.choice(ways)  # noqa: S311
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, how)
    return what


def children(pid: int) -> list[int]:
    """The processes that this one has forked."""
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except FileNotFoundError:
        return []


def main() -> None:
    """Play them and print the toll."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("runs", type=int, nargs="?", default=RUNS)
    parser.add_argument("--stops", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        toll = asyncio.run(soak(Path(folder), asked.runs, asked.stops))
    runs = toll.ended.total() // 3
    print(f"{runs} runs in {toll.took_s:.0f} s; killed: {dict(toll.kills)}")
    print(f"ended: {dict(toll.ended)}")
    print(f"most executions of a payment: {toll.most('pay')}, of a look-up: {toll.most('look_up')}")
    if not (toll.is_bearable() if asked.stops is None else toll.is_unhurt()):
        sys.exit("A promise was broken.")


if __name__ == "__main__":
    main()
