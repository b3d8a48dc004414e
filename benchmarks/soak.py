"""Runs under fire: ``python -m benchmarks.soak [RUNS]``, 2,000 of them unless told otherwise.

Starts what ``runstate dev`` starts in a temporary folder, lets many runs pay and look something up
at once, and all the while kills workers at random: the worker, the fork that it has, or both. Then
counts in the file of the tools' effects: no payment was made twice, and every run has ended.
"""

import asyncio
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


async def soak(home: Path, runs: int) -> Toll:
    """Play the runs on a stack of their own."""
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
        killer = asyncio.create_task(_kill_at_random(stack, notes))
        tags = iter(range(runs))
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
            busy = [pid for pid in stack.supervisor.pids(Role.WORKER) if _children(pid)]
            if is_time and busy:
                kills[_kill(random.choice(busy))] += 1  # noqa: S311
    return kills


def _executions(notes: Path) -> Counter[str]:
    return Counter(notes.read_text().split() if notes.exists() else ())


def _kill(worker: int) -> str:
    forks = _children(worker)
    ways = [("worker", [worker]), ("fork", forks), ("worker and fork", [worker, *forks])]
    what, victims = random.choice(ways)  # noqa: S311
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return what


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except FileNotFoundError:
        return []


def main() -> None:
    """Play them and print the toll."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as folder:
        toll = asyncio.run(soak(Path(folder), runs))
    print(f"{runs} runs in {toll.took_s:.0f} s; killed: {dict(toll.kills)}")
    print(f"ended: {dict(toll.ended)}")
    print(f"most executions of a payment: {toll.most('pay')}, of a look-up: {toll.most('look_up')}")
    if not toll.is_bearable():
        sys.exit("A promise was broken.")


if __name__ == "__main__":
    main()
