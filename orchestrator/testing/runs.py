"""Whole runs in one process: a scripted model, the engine, and the tools that are tested."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from orchestrator.app_file.reader import load_app
from orchestrator.commands import AnswerApprovals, Approval, CreateRun, NewMessage
from orchestrator.decisions import TimerKind
from orchestrator.engine.engine import Engine
from orchestrator.engine.guards import Guards
from orchestrator.housekeeping import timers
from orchestrator.ids import mint
from orchestrator.llm.routing import Models
from orchestrator.llm.script import Script
from orchestrator.records import CallState, RunSpec, Thread
from orchestrator.settings import Settings
from orchestrator.shell import change_run, create_thread
from orchestrator.states import RunStatus
from orchestrator.store import RunRef, RunView, Store
from orchestrator.testing.clock import ClockedStore
from orchestrator.testing.dispatcher import InlineDispatcher
from orchestrator.testing.fault import Fault
from orchestrator.testing.played import Played, read_played
from orchestrator.testing.servers import TestStore
from orchestrator.testing.staged import StagedTool, fire_now
from orchestrator.tools import Tool

TOOLS_TTL_S: Final = 10 * 365 * 86_400
"""Tools stay published however far a test moves the clock."""

AT_WORK: Final = {CallState.DISPATCHED, CallState.STARTED}
"""Calls that are sent, or being done."""

Faults = Mapping[str, Fault | Sequence[Fault]]


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part in a play: the same ones when it goes on later."""

    settings: Settings
    tools: Sequence[Tool[..., Any]]
    faults: Faults
    within_s: float
    guards: Guards


class Runs:
    """What the fixture ``runs`` gives."""

    def __init__(self, store: TestStore, folder: Path) -> None:
        self.store = store
        self._folder = folder
        self._casts: dict[RunRef, Cast] = {}

    async def play(  # noqa: PLR0913
        self,
        turns: Sequence[Mapping[str, Any]],
        tools: Sequence[Tool[..., Any]] = (),
        *,
        message: str = "Hello.",
        faults: Faults | None = None,
        app: str | Path | None = None,
        run_ttl_s: float = 60,
        within_s: float = 10,
    ) -> Played:
        """A run of a model that answers with these turns (docs/scripted-models.md), up to its end,
        or until it waits for somebody (a client, an approval, an operator).

        ``faults``: by the tool's name, what goes wrong at the first attempts of each of its calls.
        Pauses before repetitions are skipped. ``app``: the app file whose guardrails look, and
        whose tools take part if none are given. Raises ``TimeoutError`` after ``within_s``.
        """
        faults = faults or {}
        found = load_app(Path(app) if app else None)
        tools = tools or tuple(found.tools.values())
        _check_names(faults, tools)
        name = self._write_script(turns)
        settings = self.store.settings(self._folder, run_ttl_s)
        # The script stands for every model: rules for some of them would never look.
        guards = Guards([replace(rail, models=()) for rail in found.guardrails()])
        cast = Cast(settings, tools, faults, within_s, guards)
        async with self._at_work(cast) as (store, dispatcher):
            names = [tool.spec.name for tool in tools]
            ref = await _start(store, f"scripted/{name}", names, message, run_ttl_s)
            self._casts[ref] = cast
            return await _finished(store, dispatcher, ref)

    async def advance(self, played: Played, seconds: float) -> Played:
        """The run when so much time has passed: what is due meanwhile happens, in its order and
        each at its time. Nobody waits for it.
        """
        ref = played.ref
        async with self._at_work(self._casts[ref], is_stepped=True) as (store, dispatcher):
            until_ms = await store.now_ms() + round(seconds * 1000)
            while (timer := await store.next_timer()) and timer.at_ms <= until_ms:
                await store.move_to(timer.at_ms)
                await timers.fire(store, timer)
                await _until_still(store, ref)
            await store.move_to(until_ms)
            return await _finished(store, dispatcher, ref)

    async def approve(self, played: Played, arguments: str | None = None) -> Played:
        """The run when somebody has agreed to all calls that wait for it; ``arguments`` (JSON) take
        the place of the model's. Raises ``ValueError`` if none waits.
        """
        return await self._answer(played, is_approved=True, arguments=arguments)

    async def reject(self, played: Played, reason: str | None = None) -> Played:
        """The run when somebody has rejected all calls that wait to be approved, as ``approve``."""
        return await self._answer(played, is_approved=False, reason=reason)

    async def _answer(self, played: Played, **answer: Any) -> Played:
        waiting = [call for call in played.calls if call.state is CallState.AWAITING_APPROVAL]
        if not waiting:
            raise ValueError(f"No call of this run waits to be approved: it is {played.status}.")
        answers = tuple(Approval(call.record.id, **answer) for call in waiting)
        async with self._at_work(self._casts[played.ref]) as (store, dispatcher):
            await change_run(store, played.ref, AnswerApprovals(answers))
            return await _finished(store, dispatcher, played.ref)

    @asynccontextmanager
    async def _at_work(
        self, cast: Cast, *, is_stepped: bool = False
    ) -> AsyncIterator[tuple[ClockedStore, InlineDispatcher]]:
        """An engine and a worker with these tools. Raises ``TimeoutError`` if it takes too long."""
        store = await self.store.open()
        store.clock.is_stepped = is_stepped
        staged = {
            tool.spec.name: StagedTool(tool, _listed(cast.faults.get(tool.spec.name)), store)
            for tool in cast.tools
        }
        dispatcher = InlineDispatcher(store, cast.settings, staged)
        try:
            async with asyncio.timeout(cast.within_s), _engine(store, dispatcher, cast):
                await store.publish_tools([tool.spec for tool in cast.tools], TOOLS_TTL_S)
                yield store, dispatcher
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
async def _engine(store: Store, dispatcher: InlineDispatcher, cast: Cast) -> AsyncIterator[None]:
    """An engine at work."""
    models = Models(cast.settings)
    stop = asyncio.Event()
    engine = Engine(store, models, dispatcher, cast.settings, "engine-in-test", cast.guards)
    work = asyncio.create_task(engine.run(stop))
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


async def _finished(store: Store, dispatcher: InlineDispatcher, ref: RunRef) -> Played:
    """What has come of the run once it is still."""
    await _until_still(store, ref)
    await dispatcher.finish()
    return await read_played(store, ref)


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
