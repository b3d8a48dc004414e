"""Our processes as they stand on several hosts: apis, engines and workers around one store."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2

from cli.program import Program, Role, environment, python
from cli.supervisor import Supervisor
from cli.terminal import say
from cli.worker import worker_programs
from orchestrator.storage.embedded import find_free_port

QUEUE: Final = "tools"
START_S: Final = 60.0
GRACE_S: Final = 15.0
POLL_S: Final = 0.1
ENDED: Final = ("completed", "failed", "expired", "cancelled", "incomplete")


@dataclass(frozen=True, slots=True)
class Hosts:
    """``apis``: a client for each. ``log``: what all processes have said."""

    apis: tuple[httpx2.AsyncClient, ...]
    log: Path
    supervisor: Supervisor

    async def assistant(self, *tools: str) -> str:
        """An assistant that plays the script of its user's message with these tools."""
        functions = [{"type": "function", "function": {"name": tool}} for tool in tools]
        body = {"model": "scripted/inline", "tools": functions}
        made = await self.apis[0].post("/v1/assistants", json=body)
        return str(made.raise_for_status().json()["id"])


@asynccontextmanager
async def running_hosts(  # noqa: PLR0913
    home: Path,
    tools: str,
    variables: Mapping[str, str],
    *,
    apis: int,
    workers: int,
    engines: int = 1,
    queues: Sequence[str] = (QUEUE,),
) -> AsyncIterator[Hosts]:
    """All of them, ready for runs, with so many workers for each queue; every process has these
    variables.
    """
    log = home / "log"
    ports = [find_free_port() for _ in range(apis)]
    told = environment(**variables)
    programs = [
        *(
            Program(Role.API, f"api {port}", python("api"), {**told, "RUNSTATE_PORT": str(port)})
            for port in ports
        ),
        *(
            Program(Role.ENGINE, f"engine {number}", python("orchestrator.engine"), told)
            for number in range(1, engines + 1)
        ),
        *worker_programs(tools, queues, workers, told),
    ]
    supervisor = Supervisor(lambda: None, say)
    supervisor.start([replace(program, log=log) for program in programs])
    clients = [
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) for port in ports
    ]
    found = Hosts(tuple(clients), log, supervisor)
    try:
        await _until_ready(found, workers * len(queues))
        yield found
    finally:
        for client in clients:
            await client.aclose()
        await supervisor.stop(GRACE_S)


async def _until_ready(hosts: Hosts, workers: int) -> None:
    give_up_at = time.monotonic() + START_S
    while not all([await _is_ready(api, workers) for api in hosts.apis]):
        dead = [child.program.name for child in hosts.supervisor.children if child.deaths]
        assert not dead, f"{dead}: {hosts.log.read_text()}"
        assert time.monotonic() < give_up_at, hosts.log.read_text()
        await asyncio.sleep(POLL_S)


async def _is_ready(api: httpx2.AsyncClient, workers: int) -> bool:
    try:
        if not (await api.get("/readyz")).is_success:
            return False
        queues: list[dict[str, Any]] = (await api.get("/ops/queues")).json()["data"]
    except httpx2.TransportError:
        return False
    serving = [worker for queue in queues for worker in queue["workers"]]
    return sum(worker["state"] in {"idle", "busy"} for worker in serving) >= workers
