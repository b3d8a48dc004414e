"""Async calls on one worker: ``python -m benchmarks.inline``.

Starts what ``runstate dev`` starts in a temporary folder, with one worker, and lets twenty runs ask
for ten calls each that wait for a second. Measured from the first claim to the last answer.
"""

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx2

from cli.program import Role
from cli.stack import StackOptions, running_stack
from orchestrator import tool
from orchestrator.storage.embedded import find_free_port

RUNS: Final = 20
CALLS: Final = 10
LASTS_S: Final = 1.0
ROUNDS: Final = 3

CALL: Final = {"name": "pause", "arguments": {"seconds": LASTS_S}}
SCRIPT: Final = json.dumps({"turns": [{"tool_calls": [CALL] * CALLS}, {"text": "Done."}]})


@tool(side_effects="none")
async def pause(seconds: float) -> str:
    """Wait as an answer from far away does.

    Args:
        seconds: For how long.
    """
    await asyncio.sleep(seconds)
    return "waited"


async def one_run(http: httpx2.AsyncClient, assistant_id: str) -> list[dict[str, Any]]:
    """A run to its end; its ledger."""
    thread = {"messages": [{"role": "user", "content": SCRIPT}]}
    body = {"assistant_id": assistant_id, "thread": thread}
    run = (await http.post("/v1/threads/runs", json=body)).json()
    path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
    while run["status"] in {"queued", "in_progress"}:
        run = (await http.get(path, headers={"Prefer": "wait=10"})).json()
    assert run["status"] == "completed", run
    calls: list[dict[str, Any]] = (await http.get(f"/ops/runs/{run['id']}")).json()["calls"]
    return calls


def processor_s(pid: int) -> float:
    """What a process has had of the processor so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    """A line for each round."""
    with tempfile.TemporaryDirectory() as folder:
        options = StackOptions(
            home=Path(folder),
            port=find_free_port(),
            workers=1,
            tools="benchmarks.inline",
            is_isolated=True,
        )
        async with (
            running_stack(options) as stack,
            httpx2.AsyncClient(base_url=stack.root_url, timeout=60) as http,
        ):
            functions = [{"type": "function", "function": {"name": "pause"}}]
            body = {"model": "scripted/inline", "tools": functions}
            assistant = (await http.post("/v1/assistants", json=body)).json()["id"]
            (worker,) = stack.supervisor.pids(Role.WORKER)
            for _ in range(ROUNDS):
                before_s = processor_s(worker)
                runs = await asyncio.gather(*(one_run(http, assistant) for _ in range(RUNS)))
                calls = [call for run in runs for call in run]
                first = min(call["started_ms"] for call in calls)
                last = max(call["finished_ms"] for call in calls)
                print(
                    f"{len(calls)} calls of {LASTS_S:.0f} s took {(last - first) / 1000:.2f} s,"
                    f" and {processor_s(worker) - before_s:.2f} s of the worker's processor"
                )


if __name__ == "__main__":
    asyncio.run(main())
