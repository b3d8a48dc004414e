"""A store with runs whose calls go to real workers: what an engine would do, without the engine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from redis import Redis

from orchestrator import ids
from orchestrator.commands import CreateRun, ProposedCall, StartTurn, Stop, TurnResult
from orchestrator.dispatch import Dispatcher
from orchestrator.dispatch.job_format import queue_client
from orchestrator.loading import load_tools
from orchestrator.records import RunSpec, Thread, ToolCall, ToolSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run, create_thread
from orchestrator.storage.valkey import open_store
from orchestrator.store import RunRef, Store
from tests.clocks import Clock
from tests.waiting import until
from tests.workers import toolbox

TOOLBOX: Final = Path(toolbox.__file__)
TOOLS: Final = {name: tool.spec for name, tool in load_tools("tests.workers.toolbox").items()}


@dataclass
class Scene:
    """Everything that a test of workers needs. ``close`` ends the processes that it started."""

    store: Store
    settings: Settings
    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    tools: Mapping[str, ToolSpec] = field(default_factory=lambda: TOOLS)

    def __post_init__(self) -> None:
        self.dispatcher = Dispatcher(self.store, self.settings)

    @property
    def queue(self) -> Redis:
        """The queue server."""
        return queue_client(self.settings)

    # -- runs -----------------------------------------------------------------------------------

    async def ask(self, name: str, ttl_ms: int = 60_000, /, **arguments: Any) -> "Asked":
        """A run that waits for this call, which is on its queue."""
        (asked,) = await self.ask_many([(name, arguments)], ttl_ms)
        return asked

    async def ask_many(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], ttl_ms: int = 60_000
    ) -> "list[Asked]":
        """A run that waits for these calls, which are on their queues."""
        ref = await self.start_run(ttl_ms)
        proposed = tuple(
            ProposedCall(ids.mint("call"), name, json.dumps(arguments)) for name, arguments in calls
        )
        turn = TurnResult(
            generation=1,
            text=None,
            calls=proposed,
            stop=Stop.TOOLS,
            usage=None,
            message_id=ids.mint("msg"),
            message_step_id=ids.mint("step"),
            calls_step_id=ids.mint("step"),
            tools=self.tools,
        )
        await change_run(self.store, ref, turn)
        await self.deliver()
        return [Asked(self, ref, call.call_id) for call in proposed]

    async def start_run(self, ttl_ms: int) -> RunRef:
        """A run whose first turn is under way."""
        ref = RunRef(ids.mint("thread"), ids.mint("run"))
        functions = tuple({"type": "function", "function": {"name": name}} for name in self.tools)
        spec = RunSpec(assistant_id=ids.mint("asst"), model="scripted/echo", tools=functions)
        thread = Thread(id=ref.thread_id, created_ms=0)
        await create_thread(self.store, thread, CreateRun(ref.run_id, spec, ttl_ms))
        await change_run(self.store, ref, StartTurn("engine", 60_000))
        return ref

    async def deliver(self) -> None:
        """Bring what is on the outbox to the queues."""
        parcels = await self.store.take_parcels(100, 60_000)
        await self.dispatcher.deliver(parcels)
        await self.store.finish_parcels([parcel.ticket for parcel in parcels])

    async def calls(self, ref: RunRef) -> tuple[ToolCall, ...]:
        """The run's ledger."""
        return (await self.store.view(ref)).calls

    # -- workers --------------------------------------------------------------------------------

    def start_worker(
        self,
        queue: str = "tools",
        tools: Path = TOOLBOX,
        module: str = "workers",
        clock: Clock | None = None,
        **environment: str,
    ) -> "subprocess.Popen[bytes]":
        """A worker process. It logs to ``worker.log`` in the folder."""
        variables = {
            "RUNSTATE_REDIS_URL": self.settings.redis_url.get_secret_value(),
            "RUNSTATE_KEY_PREFIX": self.settings.key_prefix,
            "RUNSTATE_CALL_LEASE_S": str(self.settings.call_lease_s),
            "RUNSTATE_LOG_LEVEL": "DEBUG",
        }
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, "--tools", str(tools), "--queue", queue],
                env=os.environ | variables | environment | (clock.environment if clock else {}),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    @property
    def notes(self) -> Path:
        """Where the counting tools write one line per execution."""
        return self.folder / "notes"

    @property
    def log(self) -> Path:
        """What the workers have said."""
        return self.folder / "worker.log"

    async def reconnect(self) -> None:
        """Leave the connections of before a restart of the server."""
        await self.store.close()
        self.store = await open_store(self.settings)
        self.dispatcher = Dispatcher(self.store, self.settings)

    async def close(self) -> None:
        """End the workers and what they have forked."""
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for child in filter(_is_running, _read(self.notes)):
            os.killpg(child, signal.SIGKILL)


@dataclass
class Asked:
    """One call of a run."""

    scene: Scene
    ref: RunRef
    id: str

    async def now(self) -> ToolCall:
        """The call as the ledger has it."""
        return next(call for call in await self.scene.calls(self.ref) if call.id == self.id)

    async def settled(self, within_s: float = 15.0) -> ToolCall:
        """The call, once it has an output."""

        async def look() -> ToolCall | None:
            call = await self.now()
            return call if call.is_settled else None

        return await until(look, within_s)

    async def output(self) -> Any:
        """What the model will read, as JSON."""
        call = await self.settled()
        outputs = await self.scene.store.read_outputs(self.ref.thread_id, [call.output_seq or 0])
        return json.loads(outputs[self.id])


async def noted(notes: Path, lines: int = 1) -> list[int]:
    """The process ids of the executions so far, once there are so many."""

    async def look() -> list[int] | None:
        pids = _read(notes)
        return pids if len(pids) >= lines else None

    return await until(look)


def _read(notes: Path) -> list[int]:
    return [int(pid) for pid in notes.read_text().split()] if notes.exists() else []


async def gone(pid: int, within_s: float) -> None:
    """Returns once this process has ended."""

    async def look() -> bool:
        return not _is_running(pid)

    await until(look, within_s)


def _is_running(pid: int) -> bool:
    """Whether the process is there and no zombie (its parent may be slow to reap it)."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
