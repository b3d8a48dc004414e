"""``runstate worker``: as many worker processes as the tools and the operator ask for."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cli.configuration import load_settings
from cli.failure import Failure
from cli.program import Program, Role, environment, python
from cli.supervisor import Supervisor
from cli.terminal import say


async def run_workers(tools: str, count: int, concurrency: int | None) -> None:
    """Keeps ``count`` workers on every queue of the tools until it is cancelled.

    ``concurrency``: calls of async tools that each process has at once, if not as the settings say.
    Then each worker finishes the call it has, however long that takes; cancelled again, it stops.
    """
    load_settings()  # says in one sentence what is wrong with them
    told = environment()
    if concurrency is not None:
        told["RUNSTATE_INLINE_CONCURRENCY"] = str(concurrency)
    queues = await find_queues(tools, told)
    supervisor = Supervisor(on_change=_nothing, say=say)
    supervisor.start(worker_programs(tools, queues, count, told))
    try:
        await asyncio.Event().wait()
    finally:
        await supervisor.stop(grace_s=None)


async def find_queues(tools: str, told: Mapping[str, str]) -> list[str]:
    """The queues that the tools of this module are on. ``Failure`` if it cannot be imported."""
    queues: list[str] = await ask_about(tools, "--print-queues", told)
    return queues


async def ask_about(tools: str, question: str, told: Mapping[str, str]) -> Any:
    """What a worker says of the tools of this module. ``Failure`` if it cannot be imported."""
    process = await asyncio.create_subprocess_exec(
        *python("workers", "--tools", tools, question),
        env=told,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        lines = err.decode(errors="replace").strip().splitlines() or ["it does not say why"]
        raise Failure(f"The tools of {tools} cannot be used: {lines[-1]}")
    return json.loads(out)


def worker_programs(
    tools: str,
    queues: Sequence[str],
    count: int,
    told: Mapping[str, str],
    mark: str | None = None,
) -> list[Program]:
    """``count`` processes for each queue; one process listens to exactly one queue."""
    return [
        Program(
            Role.WORKER,
            f"worker {queue} {number}",
            python("workers", "--tools", tools, "--queue", queue, mark=mark),
            told,
        )
        for queue in queues
        for number in range(1, count + 1)
    ]


def _nothing() -> None:
    """Nobody keeps a list of these processes."""
