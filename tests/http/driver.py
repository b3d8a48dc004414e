"""The other processes of the system, played one command at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from openai.types.beta.threads import Run

from orchestrator.commands import (
    CallResult,
    Cancel,
    ClaimCall,
    Command,
    CreateRun,
    OpenMessage,
    Outcome,
    ProposedCall,
    StartTurn,
    Stop,
    TurnFailed,
    TurnResult,
)
from orchestrator.ids import mint
from orchestrator.records import Aggregate, RunSpec, ToolCall, ToolSpec, Usage
from orchestrator.shell import change_run, change_thread
from orchestrator.store import RunRef, Store

LEASE_MS: Final = 60_000


@dataclass(frozen=True)
class Asked:
    """A tool call as the scripted model writes it."""

    name: str
    arguments: str = "{}"


class Driver:
    """Plays the engine and the workers with the commands that they send."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def starts(self, run: Run) -> Aggregate:
        """An engine takes the turn."""
        return await self._do(run, StartTurn("engine-1", LEASE_MS))

    async def asks(
        self,
        run: Run,
        *calls: Asked,
        text: str | None = None,
        workers: tuple[str, ...] = (),
        to_approve: tuple[str, ...] = (),
        usage: Usage | None = None,
    ) -> tuple[str, ...]:
        """The model asks for tools, those named in ``workers`` being served, and so are those in
        ``to_approve`` once somebody has agreed; returns call ids.
        """
        proposed = tuple(ProposedCall(mint("call"), c.name, c.arguments) for c in calls)
        tools = {name: ToolSpec(name=name) for name in workers}
        tools |= {name: ToolSpec(name=name, approval="required") for name in to_approve}
        await self._turn(run, text, proposed, Stop.TOOLS, tools=tools, usage=usage)
        return tuple(call.call_id for call in proposed)

    async def speaks(self, run: Run) -> None:
        """The model begins to speak, which clients are not shown as a new status."""
        loaded = await self._store.load(run.thread_id, run.id)
        opening = OpenMessage(_generation(loaded.aggregate), mint("msg"), mint("step"))
        await self._do(run, opening)

    async def answers(
        self, run: Run, text: str, *, stop: Stop = Stop.DONE, usage: Usage | None = None
    ) -> None:
        """The model gives its answer."""
        await self._turn(run, text, (), stop, usage=usage)

    async def refuses(self, run: Run, refusal: str) -> None:
        """The model declines to answer."""
        await self._turn(run, None, (), Stop.DONE, refusal=refusal)

    async def fails(self, run: Run) -> None:
        """The model cannot be asked."""
        started = await self.starts(run)
        await self._do(run, TurnFailed(_generation(started), "server_error", "out of order"))

    async def cancels(self, run: Run) -> None:
        """Somebody cancels, and no engine confirms."""
        await self._do(run, Cancel(LEASE_MS))

    async def works(self, run: Run, call_id: str, text: str) -> None:
        """A worker takes a call and answers it."""
        claimed = await self._do(run, ClaimCall(call_id, "worker-1", LEASE_MS))
        call = _call(claimed, call_id)
        result = CallResult(call_id, call.generation, Outcome.SUCCEEDED, text)
        await self._do(run, result)

    async def call(self, run: Run, call_id: str) -> ToolCall:
        """A call as the ledger has it."""
        loaded = await self._store.load(run.thread_id, run.id)
        return _call(loaded.aggregate, call_id)

    async def creates(self, thread_id: str, assistant_id: str, ttl_ms: int) -> RunRef:
        """A run with a life of its own length."""
        spec = RunSpec(assistant_id=assistant_id, model="scripted/inline")
        command = CreateRun(mint("run"), spec, ttl_ms)
        await change_thread(self._store, thread_id, command)
        return RunRef(thread_id, command.run_id)

    async def _turn(
        self,
        run: Run,
        text: str | None,
        calls: tuple[ProposedCall, ...],
        stop: Stop,
        *,
        tools: Mapping[str, ToolSpec] | None = None,
        usage: Usage | None = None,
        refusal: str | None = None,
    ) -> None:
        started = await self.starts(run)
        result = TurnResult(
            generation=_generation(started),
            text=text,
            calls=calls,
            stop=stop,
            usage=usage,
            message_id=mint("msg"),
            message_step_id=mint("step"),
            calls_step_id=mint("step"),
            tools=tools or {},
            refusal=refusal,
        )
        await self._do(run, result)

    async def _do(self, run: Run, command: Command) -> Aggregate:
        return await change_run(self._store, RunRef(run.thread_id, run.id), command)


def _generation(aggregate: Aggregate) -> int:
    assert aggregate.run is not None
    return aggregate.run.generation


def _call(aggregate: Aggregate, call_id: str) -> ToolCall:
    call = aggregate.call(call_id)
    assert call is not None
    return call
