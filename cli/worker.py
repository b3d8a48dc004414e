"""``runstate worker``: as many worker processes as the tools and the operator ask for."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cli.configuration import check_app, load_settings
from cli.failure import Failure, Hopeless
from cli.program import Program, Role, environment, outcome, python
from cli.supervisor import Supervisor
from cli.terminal import say


async def run_workers(tools: str | None, count: int, concurrency: int | None) -> None:
    """Keeps ``count`` workers on every queue of the tools until it is cancelled. ``Failure`` if
    none of them can be of use.

    ``concurrency``: calls of async tools that each process has at once, if not as the settings say.
    Then each worker finishes the call it has, however long that takes; cancelled again, it stops.
    """
    settings = load_settings()
    told = environment()
    if settings.app_file is not None:
        await check_app(settings.app_file, told)
    if concurrency is not None:
        told["RUNSTATE_INLINE_CONCURRENCY"] = str(concurrency)
    queues = await find_queues(tools, told)
    if not queues:
        raise Hopeless("There is nothing to serve: give --tools, or tool_modules in the app file.")
    supervisor = Supervisor(on_change=_nothing, say=say)
    supervisor.start(worker_programs(tools, queues, count, told))
    try:
        await supervisor.end()
    finally:
        await supervisor.stop(grace_s=None)
    raise Hopeless("No worker can serve these tools: the lines above say why.")


async def find_queues(tools: str | None, told: Mapping[str, str]) -> list[str]:
    """The queues that the tools of this module, or of the app file, are on. ``Failure`` if they
    cannot be imported.
    """
    queues: list[str] = await ask_about(tools, "--print-queues", told)
    return queues


async def ask_about(tools: str | None, question: str, told: Mapping[str, str]) -> Any:
    """What a worker says of its tools. ``Failure`` if they cannot be imported."""
    code, out, err = await outcome(python("workers", *_named(tools), question), told)
    if code != 0:
        lines = err.splitlines() or ["it does not say why"]
        of = f" of {tools}" if tools else ""
        raise Failure(f"The tools{of} cannot be used: {lines[-1]}")
    return json.loads(out)


def worker_programs(
    tools: str | None,
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
            python("workers", *_named(tools), "--queue", queue, mark=mark),
            told,
        )
        for queue in queues
        for number in range(1, count + 1)
    ]


def _named(tools: str | None) -> tuple[str, ...]:
    return ("--tools", tools) if tools else ()


def _nothing() -> None:
    """Nobody keeps a list of these processes."""
