"""Runs that are cancelled at once: ``python -m benchmarks.cancels [--runs N]``, 5,000 unless told
otherwise.

Starts what ``runstate dev`` starts in a temporary folder, with workers of both kinds. Each run asks
for a call of each kind; all but the last are cancelled at a random moment of their first 50 ms,
while they wait for a turn, their calls for a worker, or a worker for its claim. The tools leave a
line for each execution: none without a claim of a run that went on, and none twice.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from benchmarks.hosts import ENDED
from cli.stack import StackOptions, running_stack
from orchestrator import tool
from orchestrator.storage.embedded import find_free_port

RUNS: Final = 5_000
AT_ONCE: Final = 16
WORKERS: Final = 1
"""Of each kind."""

WITHIN_S: Final = 0.05
WAIT: Final = {"Prefer": "wait=10"}
TOOLS: Final = ("note", "note_inline")


@tool(side_effects="once")
def note(tag: str, path: str) -> str:
    """Leave a line.

    Args:
        tag: The line.
        path: The file that gets it.
    """
    return _note(tag, path)


@tool(side_effects="once")
async def note_inline(tag: str, path: str) -> str:
    """Leave a line, on the shared event loop.

    Args:
        tag: The line.
        path: The file that gets it.
    """
    return _note(tag, path)


def _note(tag: str, path: str) -> str:
    with Path(path).open("a") as lines:
        lines.write(f"{tag}\n")
    return "noted"


@dataclass(slots=True)
class Toll:
    """``ended`` counts ``run cancelled``, ``note never claimed`` and so on; ``claimed``: the calls
    that a worker was given before they were over; ``executions``: the lines of each call.
    """

    ended: Counter[str] = field(default_factory=Counter)
    claimed: set[str] = field(default_factory=set)
    executions: Counter[str] = field(default_factory=Counter)
    took_s: float = 0.0

    def wrong(self) -> list[str]:
        """The calls that were executed without a claim, or more than once."""
        return sorted(tag for tag, n in self.executions.items() if n > 1 or tag not in self.claimed)

    def is_bearable(self, runs: int) -> bool:
        """Whether every run has ended, with no execution too many."""
        is_over = self.ended["run cancelled"] + self.ended["run completed"] == runs
        return is_over and not self.wrong()


async def cancels(home: Path, runs: int) -> Toll:
    """Play the runs on a stack of their own."""
    options = StackOptions(
        home=home / "data",
        port=find_free_port(),
        workers=WORKERS,
        tools="benchmarks.cancels",
        is_isolated=True,
    )
    notes, toll = home / "notes", Toll()
    async with (
        running_stack(options) as stack,
        httpx2.AsyncClient(base_url=stack.root_url, timeout=60) as http,
    ):
        functions = [{"type": "function", "function": {"name": name}} for name in TOOLS]
        body = {"model": "scripted/inline", "tools": functions}
        assistant = (await http.post("/v1/assistants", json=body)).json()["id"]
        client = Client(http, assistant, notes, toll)
        began = time.monotonic()
        numbers = iter(range(1, runs))

        async def lane() -> None:
            for number in numbers:
                await client.play(number, random.uniform(0, WITHIN_S))  # noqa: S311

        await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
        await client.play(runs)  # behind all others on the queues
        toll.took_s = time.monotonic() - began
    toll.executions.update(notes.read_text().split())
    return toll


@dataclass(frozen=True, slots=True)
class Client:
    """Creates runs and cancels them, and notes how they have ended."""

    http: httpx2.AsyncClient
    assistant: str
    notes: Path
    toll: Toll

    async def play(self, number: int, cancel_after_s: float | None = None) -> None:
        """A run to its end."""
        body = self._body(number)
        run: dict[str, Any] = (await self.http.post("/v1/threads/runs", json=body)).json()
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
        if cancel_after_s is not None:
            await asyncio.sleep(cancel_after_s)
            await self.http.post(f"{path}/cancel")  # refused if it has ended by itself
        while run["status"] not in ENDED:
            run = (await self.http.get(path, headers=WAIT)).json()
        self.toll.ended[f"run {run['status']}"] += 1
        for call in (await self.http.get(f"/ops/runs/{run['id']}")).json()["calls"]:
            claimed_ms, over_ms = call["started_ms"], call["finished_ms"]
            is_claimed = claimed_ms is not None and claimed_ms <= over_ms
            self.toll.ended[f"{call['name']} {'claimed' if is_claimed else 'not claimed'}"] += 1
            if is_claimed:
                self.toll.claimed.add(f"{call['name']}-{number}")

    def _body(self, number: int) -> dict[str, Any]:
        calls = [
            {"name": name, "arguments": {"tag": f"{name}-{number}", "path": str(self.notes)}}
            for name in TOOLS
        ]
        script = json.dumps({"turns": [{"tool_calls": calls}, {"text": "Done."}]})
        thread = {"messages": [{"role": "user", "content": script}]}
        return {"assistant_id": self.assistant, "thread": thread}


def main() -> None:
    """Play them and print the toll."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cancels")
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        toll = asyncio.run(cancels(Path(folder), runs))
    print(f"{runs} runs in {toll.took_s:.0f} s: {dict(sorted(toll.ended.items()))}")
    print(f"executions: {toll.executions.total()}; too many: {toll.wrong()}")
    if not toll.is_bearable(runs):
        sys.exit("A promise was broken.")


if __name__ == "__main__":
    main()
