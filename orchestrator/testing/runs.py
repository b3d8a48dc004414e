"""Whole runs in one process: a scripted model, the engine, and the tools that are tested."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from orchestrator.commands import CreateRun, NewMessage
from orchestrator.decisions import TimerKind
from orchestrator.engine.engine import Engine
from orchestrator.ids import mint
from orchestrator.llm.routing import Models
from orchestrator.llm.script import Script
from orchestrator.records import CallState, RunSpec, Thread
from orchestrator.settings import Settings
from orchestrator.shell import create_thread
from orchestrator.states import RunStatus
from orchestrator.store import RunRef, RunView, Store
from orchestrator.testing.dispatcher import InlineDispatcher
from orchestrator.testing.fault import Fault
from orchestrator.testing.played import Played, read_played
from orchestrator.testing.servers import TestStore
from orchestrator.testing.staged import StagedTool, fire_now
from orchestrator.tools import Tool

TOOLS_TTL_S: Final = 3_600

AT_WORK: Final = {CallState.DISPATCHED, CallState.STARTED}
"""Calls that are sent, or being done."""

Faults = Mapping[str, Fault | Sequence[Fault]]


class Runs:
    """What the fixture ``runs`` gives."""

    def __init__(self, store: TestStore, folder: Path) -> None:
        self.store = store
        self._folder = folder

    async def play(  # noqa: PLR0913
        self,
        turns: Sequence[Mapping[str, Any]],
        tools: Sequence[Tool[..., Any]] = (),
        *,
        message: str = "Hello.",
        faults: Faults | None = None,
        run_ttl_s: float = 60,
        within_s: float = 10,
    ) -> Played:
        """A run of a model that answers with these turns (docs/scripted-models.md), up to its end,
        or until it waits for somebody (a client, an approval, an operator).

        ``faults``: by the tool's name, what goes wrong at the first attempts of each of its calls.
        Pauses before repetitions are skipped. Raises ``TimeoutError`` after ``within_s``.
        """
        faults = faults or {}
        _check_names(faults, tools)
        name = self._write_script(turns)
        settings = self.store.settings(self._folder, run_ttl_s)
        store = await self.store.open()
        staged = {
            tool.spec.name: StagedTool(tool, _listed(faults.get(tool.spec.name)), store)
            for tool in tools
        }
        dispatcher = InlineDispatcher(store, settings, staged)
        try:
            async with asyncio.timeout(within_s), _engine(store, dispatcher, settings):
                await store.publish_tools([tool.spec for tool in tools], TOOLS_TTL_S)
                ref = await _start(store, f"scripted/{name}", list(staged), message, run_ttl_s)
                await _until_still(store, ref)
                await dispatcher.finish()
                return await read_played(store, ref)
        finally:
            await dispatcher.cancel()
            await store.close()

    def _write_script(self, turns: Sequence[Mapping[str, Any]]) -> str:
        """The script under a name of its own. Raises ``ValidationError`` for one that is none."""
        text = json.dumps({"turns": list(turns)})
        Script.model_validate_json(text)
        name = mint("run")
        (self._folder / f"{name}.yaml").write_text(text)
        return name


@asynccontextmanager
async def _engine(
    store: Store, dispatcher: InlineDispatcher, settings: Settings
) -> AsyncIterator[None]:
    """An engine at work."""
    models = Models(settings)
    stop = asyncio.Event()
    work = asyncio.create_task(
        Engine(store, models, dispatcher, settings, "engine-in-test").run(stop)
    )
    try:
        yield
    finally:
        stop.set()
        await work
        await models.aclose()


async def _start(
    store: Store, model: str, tools: Sequence[str], message: str, ttl_s: float
) -> RunRef:
    functions = tuple({"type": "function", "function": {"name": name}} for name in tools)
    spec = RunSpec(assistant_id=mint("asst"), model=model, tools=functions)
    part = {"type": "text", "text": {"value": message, "annotations": []}}
    said = NewMessage(mint("msg"), "user", (part,))
    ref = RunRef(mint("thread"), mint("run"))
    command = CreateRun(ref.run_id, spec, round(ttl_s * 1000), additional_messages=(said,))
    await create_thread(store, Thread(id=ref.thread_id, created_ms=0), command)
    return ref


async def _until_still(store: Store, ref: RunRef) -> None:
    """Returns once the run has ended, or goes on only with somebody's help."""
    async with aclosing(store.rings()) as rings:  # type: ignore[type-var]
        async for ring in rings:
            if ring.ref in (None, ref):
                view = await store.view(ref)
                if view.run.is_final:
                    return
                if view.run.status is RunStatus.REQUIRES_ACTION and not _is_at_work(view):
                    pausing = [call for call in view.calls if call.state is CallState.RETRYING]
                    if not pausing:
                        return
                    for call in pausing:
                        await fire_now(store, ref, TimerKind.CALL_RETRY, call)


def _is_at_work(view: RunView) -> bool:
    """Whether workers have calls. Only then is a pause more than a wait: for a turn, perhaps."""
    return any(call.state in AT_WORK for call in view.calls)


def _listed(faults: Fault | Sequence[Fault] | None) -> Sequence[Fault]:
    if faults is None:
        return ()
    return (faults,) if isinstance(faults, Fault) else faults


def _check_names(faults: Faults, tools: Sequence[Tool[..., Any]]) -> None:
    if unknown := sorted(faults.keys() - {tool.spec.name for tool in tools}):
        raise ValueError(f"faults: there is no tool {', '.join(unknown)} in this play.")
