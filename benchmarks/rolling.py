"""Rolling restarts amid long runs: ``python -m benchmarks.rolling [--runs N] [--lasts-s S]
[--every-s S] [--grace-s S]``; 200 runs of 30 s, every 20 s, 10 s unless told otherwise.

Two of each: apis, engines, and workers of both kinds. Every so often one half of them is told to
stop, and killed with its forks if it has not after the grace, which some calls outlast. Meanwhile
clients follow their runs: models that speak, a payment, a look-up. A stream that ends early is
joined again. Every run ends, its thread is free, no payment is made twice, and what a client was
told in pieces is what the log tells at once.
"""

import argparse
import asyncio
import itertools
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from benchmarks.hosts import ENDED, Hosts, running_hosts
from benchmarks.soak import children
from cli.supervisor import Child
from orchestrator import tool
from orchestrator.storage.embedded import find_free_port
from orchestrator.storage.embedded import start as start_server

AT_ONCE: Final = 50
WORDS: Final = 20
QUEUES: Final = ("tools", "tools-io")
TOOLS: Final = ("pay", "look_up")
LOOK_S: Final = 0.1
PATIENCE_S: Final = 600


@tool(side_effects="once")
def pay(tag: str, notes: str, seconds: float) -> str:
    """Pay once, and take some time over it.

    Args:
        tag: What the payment is for.
        notes: The file that gets the line.
        seconds: How long it takes.
    """
    _note(f"pay:{tag}", notes)
    time.sleep(seconds)
    return f"paid {tag}"


@tool(side_effects="idempotent")
async def look_up(tag: str, notes: str, seconds: float) -> str:
    """Look something up, and take some time over it.

    Args:
        tag: What to look up.
        notes: The file that gets the line.
        seconds: How long it takes.
    """
    _note(f"look_up:{tag}", notes)
    await asyncio.sleep(seconds)
    return f"seen {tag}"


def _note(line: str, notes: str) -> None:
    with Path(notes).open("a") as lines:
        lines.write(f"{line}\n")


@dataclass(frozen=True, slots=True)
class Plan:
    """How many runs, how long each lasts at least, and how often and how hard the restarts are. One
    payment of ``slow_of`` takes as long as a look-up, the others are quick. ``waves``: so many
    restarts of one half each, or as many as there is time for.
    """

    runs: int
    lasts_s: float
    every_s: float
    grace_s: float
    slow_of: int = 10
    waves: int | None = None

    def script(self, number: int, notes: Path) -> str:
        """A third of the time the model speaks, a third it waits, a third it speaks again."""
        part_s = self.lasts_s / 3
        pay_s = part_s * 1.2 if number % self.slow_of == 0 else part_s / 10
        calls = [
            {"name": name, "arguments": {"tag": str(number), "notes": str(notes), "seconds": s}}
            for name, s in zip(TOOLS, (pay_s, part_s * 1.2), strict=True)
        ]
        words = {"text": "word " * WORDS, "chunk_delay_s": part_s / WORDS}
        return json.dumps({"turns": [{**words, "tool_calls": calls}, words]})


@dataclass(slots=True)
class Toll:
    """``ended`` counts ``run completed``, ``pay unknown`` and so on; ``restarts`` the processes
    that stopped in time, and those that were killed; ``joined``: streams taken up again; ``wrong``:
    what should not have been.
    """

    ended: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    joined: int = 0
    wrong: list[str] = field(default_factory=list)
    executions: Counter[str] = field(default_factory=Counter)
    took_s: float = 0.0

    def is_bearable(self, runs: int) -> bool:
        """Whether all runs have ended, nothing was paid twice, and nobody was told nonsense."""
        paid = [n for line, n in self.executions.items() if line.startswith("pay:")]
        known = self.ended["pay succeeded"]
        is_paid = (
            max(paid, default=0) == 1 and known <= len(paid) <= known + self.ended["pay unknown"]
        )
        is_over = self.ended["run completed"] + self.ended["run failed"] == runs
        return is_over and is_paid and not self.wrong


async def rolling(home: Path, plan: Plan, **variables: str) -> Toll:
    """Play the runs on processes of their own, which have these variables."""
    server = start_server(home / "store", port=find_free_port())
    toll, notes = Toll(), home / "notes"
    variables["RUNSTATE_REDIS_URL"] = server.url.get_secret_value()
    try:
        async with running_hosts(
            home, "benchmarks.rolling", variables, apis=2, engines=2, workers=2, queues=QUEUES
        ) as hosts:
            client = Client(hosts, await hosts.assistant(*TOOLS), plan, notes, toll)
            began = time.monotonic()
            restarting = asyncio.create_task(_restart_in_turn(hosts, plan, toll))
            numbers = iter(range(plan.runs))
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(client.play_all(numbers) for _ in range(AT_ONCE)))
            toll.took_s = time.monotonic() - began
            restarting.cancel()
            with suppress(asyncio.CancelledError):
                await restarting
    finally:
        server.stop()
    toll.executions.update(notes.read_text().split())
    return toll


# -- the restarts ---------------------------------------------------------------------------------


async def _restart_in_turn(hosts: Hosts, plan: Plan, toll: Toll) -> None:
    halves = (hosts.supervisor.children[::2], hosts.supervisor.children[1::2])
    for half in itertools.islice(itertools.cycle(halves), plan.waves):
        await asyncio.sleep(plan.every_s)
        how = await asyncio.gather(*(_restart(child, plan.grace_s) for child in half))
        toll.restarts.update(how)


async def _restart(child: Child, grace_s: float) -> str:
    """The signal, and after the grace the end of all that is left; returns how it went."""
    pid, role, how = child.pid, child.program.role, "stopped"
    if pid is None:
        return f"{role} was down"
    os.kill(pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_s):
            await _until_gone(child, pid)
    except TimeoutError:
        how = "killed"
        for victim in (pid, *children(pid)):
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        await _until_gone(child, pid)
    return f"{role} {how}"


async def _until_gone(child: Child, pid: int) -> None:
    while child.pid in {pid, None}:  # noqa: ASYNC110 - another process
        await asyncio.sleep(LOOK_S)


# -- the clients ----------------------------------------------------------------------------------

Told = tuple[str, str, str]
"""An event's id, name and data."""


@dataclass(frozen=True, slots=True)
class Client:
    """Creates runs and follows them, at whichever api there is."""

    hosts: Hosts
    assistant: str
    plan: Plan
    notes: Path
    toll: Toll

    async def play_all(self, numbers: Iterator[int]) -> None:
        """One run after another."""
        for number in numbers:
            await self._play(number)

    async def _play(self, number: int) -> None:
        messages = [{"role": "user", "content": self.plan.script(number, self.notes)}]
        body = {"assistant_id": self.assistant, "thread": {"messages": messages}}
        run = await self._ask("POST", "/v1/threads/runs", json=body)
        thread = f"/v1/threads/{run['thread_id']}"
        path = f"{thread}/runs/{run['id']}"
        told = await self._follow(f"{path}/events")
        run = await self._ask("GET", path)
        self.toll.ended[f"run {run['status']}"] += 1
        if run["status"] not in ENDED or (run["status"] == "failed") != bool(run["last_error"]):
            self.toll.wrong.append(f"{run['id']} is {run['status']} after its stream")
        if told != await self._follow(f"{path}/events"):
            self.toll.wrong.append(f"{run['id']} was told otherwise in pieces")
        for call in (await self._ask("GET", f"/ops/runs/{run['id']}"))["calls"]:
            self.toll.ended[f"{call['name']} {call['state']}"] += 1
        # Refused, were the thread not free.
        await self._ask("POST", f"{thread}/messages", json={"role": "user", "content": "Thanks."})

    async def _follow(self, path: str) -> list[Told]:
        """All that the run tells, however many streams it takes."""
        told: list[Told] = []
        for api in itertools.cycle(self.hosts.apis):
            last_id = told[-1][0] if told else "0"
            with suppress(httpx2.TransportError):
                async with api.sse(path, headers={"Last-Event-ID": last_id}) as source:
                    if not source.response.is_success:
                        continue
                    self.toll.joined += bool(told)
                    async for event in source:
                        if event.event == "done":
                            return told
                        if event.event == "error":
                            break
                        told.append((event.id, event.event, event.data))
            await asyncio.sleep(LOOK_S)
        raise AssertionError

    async def _ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        headers = {"Idempotency-Key": secrets.token_hex()} if method == "POST" else {}
        for api in itertools.cycle(self.hosts.apis):
            with suppress(httpx2.TransportError):
                answer = await api.request(method, path, headers=headers, **content)
                if not answer.is_server_error:
                    found: dict[str, Any] = answer.raise_for_status().json()
                    return found
            await asyncio.sleep(LOOK_S)
        raise AssertionError


def main() -> None:
    """Play them and print the toll."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rolling")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--lasts-s", type=float, default=30)
    parser.add_argument("--every-s", type=float, default=20)
    parser.add_argument("--grace-s", type=float, default=10)
    plan = Plan(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        toll = asyncio.run(rolling(Path(folder), plan))
    print(f"{plan.runs} runs in {toll.took_s:.0f} s; {toll.joined} streams joined again")
    print(f"restarts: {dict(sorted(toll.restarts.items()))}")
    print(f"ended: {dict(sorted(toll.ended.items()))}; wrong: {toll.wrong}")
    if not toll.is_bearable(plan.runs):
        sys.exit("A promise was broken.")


if __name__ == "__main__":
    main()
