"""One model turn: from the transcript to the command that stores the reply.

Nothing is kept between turns, so any engine can play any turn, and play it again when the engine
that had it is gone.
"""

import asyncio
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
from orchestrator.engine.compaction import Compacted, compact
from orchestrator.engine.guarding import Reviewed, clear, review
from orchestrator.engine.guards import Guards
from orchestrator.engine.prompt import Prompt
from orchestrator.engine.recorder import Recorder
from orchestrator.engine.speech import Speech
from orchestrator.errors import ModelError
from orchestrator.llm.protocol import TurnRequest
from orchestrator.llm.routing import Models
from orchestrator.records import Aggregate, Run, RunSpec, ToolSpec
from orchestrator.server_tools import with_uses_left
from orchestrator.settings import Settings
from orchestrator.store import RunRef, Store
from orchestrator.turn_record import TurnRecord

log = structlog.get_logger(__name__)


async def play_turn(
    store: Store, models: Models, aggregate: Aggregate, settings: Settings, guards: Guards
) -> TurnResult | TurnFailed | RunOut | RequeueTurn | ApplyGuards:
    """Ask the model what comes next, and log what it says.

    A call that failed and may succeed later is repeated, at most ``model_max_retries`` times and
    never past the run's deadline; once something of it has been logged, by handing the turn back,
    so that it is logged anew. ``aggregate`` is what ``StartTurn`` committed. Cancelling aborts the
    request to the provider.
    """
    run, spec = aggregate.run, aggregate.spec
    assert run is not None and spec is not None  # noqa: S101, PT018 - StartTurn had them
    now, guards = asyncio.get_running_loop().time, guards.of(spec.model)
    ends_at = now() + (run.deadline_ms - run.updated_ms) / 1000
    entries, tools, earlier = await asyncio.gather(
        store.read_entries(run.thread_id),
        store.tools(spec.function_names()),
        _handed_back(store, run),
    )
    routes = models.routes(spec.model)
    cleared = await clear(store, guards, aggregate, entries)
    if isinstance(cleared, ApplyGuards):
        return cleared
    begun = Compacted(cleared.run, cleared.entries)
    compacted = await compact(store, models, begun, spec, settings)
    run = compacted.run
    shown = prompt.prepare(run, spec, compacted.entries, routes)
    notes = Recorder(run, shown, now, compacted.compactions, earlier)
    if (end := prompt.too_much(shown, run, spec)) is not None:
        return replace(end, record=notes.record(_request(run, spec, shown, 0), routes[0]))
    while True:
        request = _request(run, spec, shown, len(notes.errors))
        route = models.route(spec.model, request.failed_attempts)
        notes.ask()
        speech = Speech(store, run, settings.delta_batch_ms / 1000)
        model = models.model_for(spec.model, request.failed_attempts)
        try:
            reply = await ask(model, request, speech, settings, guards.holds)
        except ModelError as error:
            notes.errors.append(str(error))
            failures = len(notes.errors)
            log.warning("model.failed", attempt=failures, error=str(error))
            record = notes.record(request, route)
            wait_s = _wait_s(error, notes.failures, len(routes), settings)
            if wait_s is None or now() + wait_s >= ends_at:
                message = _last_words(error, wait_s)
                return TurnFailed(run.generation, error.last_error_code, message, failures, record)
            await asyncio.sleep(wait_s)
            if speech.has_begun:
                return RequeueTurn(run.generation, failures, record)
        else:
            reviewed = await review(guards, reply, speech)
            result = _result(run, reviewed, dict(tools), speech)
            return replace(
                result,
                failed_attempts=len(notes.errors),
                counted_tokens=shown.counted_tokens,
                record=notes.record(request, route, reply),
            )


async def _handed_back(store: Store, run: Run) -> TurnRecord | None:
    """What is known of the turn from an engine that has given it back. Mostly nobody has."""
    if run.generation == run.turns + 1:
        return None
    turns = await store.read_turns(RunRef(run.thread_id, run.id))
    return next((record for record in turns if record.turn == run.turns), None)


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


def _result(run: Run, reviewed: Reviewed, tools: dict[str, ToolSpec], speech: Speech) -> TurnResult:
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
