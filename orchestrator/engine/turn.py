"""One model turn: from the transcript to the command that stores the reply.

Nothing is kept between turns, so any engine can play any turn, and play it again when the engine
that had it is gone.
"""

import asyncio
import random
from typing import Any, Final

import structlog

from orchestrator import conversation
from orchestrator.commands import ProposedCall, TurnFailed, TurnResult
from orchestrator.errors import ModelError
from orchestrator.ids import mint
from orchestrator.llm.protocol import Reply, TurnRequest
from orchestrator.llm.routing import Models
from orchestrator.records import Aggregate, Run, RunSpec, ToolSpec
from orchestrator.store import Store

FIRST_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 30.0

log = structlog.get_logger(__name__)


async def play_turn(
    store: Store, models: Models, aggregate: Aggregate, max_retries: int
) -> TurnResult | TurnFailed:
    """Ask the model what comes next; what may succeed later is repeated ``max_retries`` times.

    ``aggregate`` is what ``StartTurn`` committed. Cancelling aborts the request to the provider.
    """
    run, spec = aggregate.run, aggregate.spec
    assert run is not None and spec is not None  # noqa: S101, PT018 - StartTurn had them
    entries, tools = await asyncio.gather(
        store.read_entries(run.thread_id), store.tools(spec.function_names())
    )
    told = conversation.build(spec.instructions, entries)
    failures = 0
    while True:
        request = TurnRequest(
            run_id=run.id,
            spec=spec,
            conversation=told,
            turn=run.turns,
            failed_attempts=run.failed_attempts + failures,
            tool_choice=_tool_choice(run, spec),
        )
        try:
            reply = await _ask(models, request)
        except ModelError as error:
            failures += 1
            log.warning("model.failed", attempt=failures, error=str(error))
            if not error.is_retryable or failures > max_retries:
                return TurnFailed(run.generation, error.last_error_code, str(error), failures)
            await asyncio.sleep(_backoff_s(failures, error.retry_after_s))
        else:
            return _result(run, reply, dict(tools), failures)


async def _ask(models: Models, request: TurnRequest) -> Reply:
    async for item in models.model_for(request.spec.model).stream(request):
        if isinstance(item, Reply):
            return item
    message = f"The model {request.spec.model} ended its stream without a reply."
    raise ModelError(message, is_retryable=True)


def _tool_choice(run: Run, spec: RunSpec) -> Any:
    """A forced choice holds for the first turn only, else the run could never come to an answer."""
    is_forced = spec.tool_choice not in (None, "auto", "none")
    return "auto" if is_forced and run.turns > 0 else spec.tool_choice


def _result(run: Run, reply: Reply, tools: dict[str, ToolSpec], failures: int) -> TurnResult:
    return TurnResult(
        generation=run.generation,
        text=reply.text,
        calls=tuple(
            ProposedCall(mint("call"), call.name, call.arguments, call.provider_id)
            for call in reply.calls
        ),
        stop=reply.stop,
        usage=reply.usage,
        message_id=mint("msg"),
        message_step_id=mint("step"),
        calls_step_id=mint("step"),
        tools=tools,
        failed_attempts=failures,
        refusal=reply.refusal,
    )


def _backoff_s(failures: int, asked_s: float | None) -> float:
    """What the provider asked for, or a doubling pause; a quarter of jitter keeps engines apart."""
    pause_s = asked_s if asked_s is not None else FIRST_BACKOFF_S * 2 ** (failures - 1)
    return min(pause_s, MAX_BACKOFF_S) * random.uniform(1.0, 1.25)  # noqa: S311
