"""One model turn: from the transcript to the command that stores the reply.

Nothing is kept between turns, so any engine can play any turn, and play it again when the engine
that had it is gone.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from orchestrator import arguments
from orchestrator.commands import (
    ApplyGuards,
    ProposedCall,
    RequeueTurn,
    RunOut,
    TurnFailed,
    TurnResult,
)
from orchestrator.engine import prompt
from orchestrator.engine.asking import ask, pause_s
from orchestrator.engine.compaction import compact
from orchestrator.engine.guarding import Reviewed, clear, review
from orchestrator.engine.guards import Guards
from orchestrator.engine.prompt import Prompt
from orchestrator.engine.recorder import Recorder
from orchestrator.engine.speech import Speech
from orchestrator.errors import ModelError
from orchestrator.llm.protocol import TurnRequest
from orchestrator.llm.routing import Models
from orchestrator.records import Aggregate, GuardPoint, Run, RunSpec, ToolSpec
from orchestrator.server_tools import with_uses_left
from orchestrator.settings import Settings
from orchestrator.store import RunRef, Store

Conclusion = TurnResult | TurnFailed | RunOut | RequeueTurn | ApplyGuards

log = structlog.get_logger(__name__)


class Turn:
    """One turn under way. ``aggregate`` is what ``StartTurn`` committed."""

    def __init__(
        self,
        store: Store,
        models: Models,
        aggregate: Aggregate,
        settings: Settings,
        guards: Guards,
    ) -> None:
        run, spec = aggregate.run, aggregate.spec
        assert run is not None and spec is not None  # noqa: S101, PT018 - StartTurn had them
        self.ref = RunRef(run.thread_id, run.id)
        self.generation = run.generation
        self._store = store
        self._models = models
        self._aggregate = aggregate
        self._spec = spec
        self._settings = settings
        self._guards = guards.of(spec.model)
        self._routes = models.routes(spec.model)
        self._notes = Recorder(store, run, spec, models.route(spec.model, run.failed_attempts))
        self._now = asyncio.get_running_loop().time
        self._ends_at = self._now() + (run.deadline_ms - run.updated_ms) / 1000

    async def play(self) -> Conclusion:
        """Ask the model what comes next, and log what it says.

        A call that failed and may succeed later is repeated, at most ``model_max_retries`` times
        and never past the run's deadline; once something of it has been logged, by handing the turn
        back, so that it is logged anew. Cancelling aborts the request to the provider.
        """
        entries, tools, _ = await asyncio.gather(
            self._store.read_entries(self.ref.thread_id),
            self._store.tools(self._spec.function_names()),
            self._notes.take_over(),
        )
        cleared = await clear(self._store, self._guards, self._aggregate, entries)
        if isinstance(cleared, ApplyGuards):
            return cleared
        before = await compact(
            self._store, self._models, cleared, self._spec, self._settings, self._notes
        )
        shown = prompt.prepare(before.run, self._spec, before.entries, self._routes)
        self._notes.show(shown)
        if (end := prompt.too_much(shown, before.run, self._spec)) is not None:
            return replace(end, record=self._notes.record)
        return await self._ask(before.run, shown, tools)

    def hand_back(self) -> RequeueTurn:
        """The command that gives the turn to another engine, with what is known of it."""
        return RequeueTurn(self.generation, self._notes.failed_here, self._notes.broken_off())

    async def _ask(self, run: Run, shown: Prompt, tools: Mapping[str, ToolSpec]) -> Conclusion:
        notes, name = self._notes, self._spec.model
        while True:
            request = _request(run, self._spec, shown, notes.failed_here)
            await notes.ask(request, self._models.route(name, request.failed_attempts))
            model = self._models.model_for(name, request.failed_attempts, notes)
            speech = Speech(self._store, run, self._settings.delta_batch_ms / 1000)
            try:
                reply = await ask(model, request, speech, self._settings, self._guards.holds)
            except ModelError as error:
                if (end := await self._failed(error, speech)) is not None:
                    return end
            else:
                notes.answer(reply)
                if self._guards.are_at(GuardPoint.OUTPUT, GuardPoint.TOOL_INPUT):
                    await notes.keep()
                reviewed = await review(self._guards, reply, speech)
                return replace(
                    _result(run, reviewed, tools, speech),
                    failed_attempts=notes.failed_here,
                    counted_tokens=shown.counted_tokens,
                    record=notes.record,
                )

    async def _failed(self, error: ModelError, speech: Speech) -> TurnFailed | RequeueTurn | None:
        """How the turn ends with that; ``None``: not yet, and the pause is over."""
        notes = self._notes
        notes.fail(error)
        log.warning("model.failed", attempt=notes.failed_here, error=str(error))
        failures = len(notes.record.failures)
        wait_s = _wait_s(error, failures, len(self._routes), self._settings)
        if wait_s is None or self._now() + wait_s >= self._ends_at:
            message = _last_words(error, wait_s)
            return TurnFailed(
                self.generation, error.last_error_code, message, notes.failed_here, notes.record
            )
        await notes.keep()
        await asyncio.sleep(wait_s)
        return self.hand_back() if speech.has_begun else None


def _request(run: Run, spec: RunSpec, shown: Prompt, failures: int) -> TurnRequest:
    return TurnRequest(
        run_id=run.id,
        spec=spec.but(tools=with_uses_left(spec.tools, run.server_uses)),
        conversation=shown.conversation,
        turn=run.turns,
        failed_attempts=run.failed_attempts + failures,
        tool_choice=_tool_choice(run, spec),
        max_completion_tokens=prompt.completion_tokens_left(run, spec),
    )


def _wait_s(error: ModelError, failures: int, routes: int, settings: Settings) -> float | None:
    """How long to wait before the next request; ``None``: there is none.

    The next route is asked at once, also after what only another endpoint can do better.
    """
    if failures < routes and error.last_error_code != "invalid_prompt":
        return 0.0
    if not error.is_retryable or failures > max(settings.model_max_retries, routes - 1):
        return None
    return pause_s(failures, error.retry_after_s)


def _last_words(error: ModelError, wait_s: float | None) -> str:
    if wait_s is None:
        return str(error)
    return f"{error} The next try would be in {wait_s:.0f} s, after the end of the run."


def _tool_choice(run: Run, spec: RunSpec) -> Any:
    """A forced choice holds for the first turn only, else the run could never come to an answer."""
    is_forced = spec.tool_choice not in (None, "auto", "none")
    return "auto" if is_forced and run.turns > 0 else spec.tool_choice


def _result(
    run: Run, reviewed: Reviewed, tools: Mapping[str, ToolSpec], speech: Speech
) -> TurnResult:
    reply = reviewed.reply
    return TurnResult(
        generation=run.generation,
        text=reply.text,
        calls=tuple(
            _proposed(speech.call_id(index), index, reviewed, tools.get(call.name))
            for index, call in enumerate(reply.calls)
        ),
        stop=reply.stop,
        usage=reply.usage,
        message_id=speech.message_id,
        message_step_id=speech.message_step_id,
        calls_step_id=speech.calls_step_id,
        tools=tools,
        refusal=reply.refusal,
        firings=reviewed.firings,
        server_uses=reply.server_uses,
        blocks=reply.blocks,
    )


def _proposed(call_id: str, index: int, reviewed: Reviewed, tool: ToolSpec | None) -> ProposedCall:
    call = reviewed.reply.calls[index]
    refusal = reviewed.refusals.get(index)
    if refusal is None and tool is not None:
        refusal = arguments.refusal(call.arguments, tool.parameters)
    return ProposedCall(
        call_id, call.name, call.arguments, call.provider_id, refusal, reviewed.asked.get(index)
    )
