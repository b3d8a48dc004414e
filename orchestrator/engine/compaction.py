"""Before a turn whose prompt is too long: a model writes summaries of the oldest part of it.

Each one is committed under the turn's fence before the model is asked anything else, so it is paid
for once, whatever dies. If none can be had, the prompt is truncated like any other.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from orchestrator.commands import Compact, Stop
from orchestrator.conversation import Group
from orchestrator.engine import prompt
from orchestrator.engine.asking import listen
from orchestrator.engine.guarding import Cleared
from orchestrator.engine.recorder import Recorder
from orchestrator.errors import ModelError, StaleTurn
from orchestrator.llm.protocol import Model, Reply, TurnRequest
from orchestrator.llm.routing import Models
from orchestrator.records import Run, RunSpec, Spans
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from orchestrator.summaries import to_be_summarised
from orchestrator.turn_record import Compaction, places, spans

log = structlog.get_logger(__name__)


async def compact(  # noqa: PLR0913, PLR0917 - what a turn knows
    store: Store,
    models: Models,
    before: Cleared,
    spec: RunSpec,
    settings: Settings,
    notes: Recorder,
) -> Cleared:
    """Summarise until the prompt fits, or nothing is gained any more."""
    found, routes = before, models.routes(spec.model)
    while part := prompt.to_summarise(found.run, spec, found.entries, routes):
        replaced = _places(part.groups)
        await notes.summarise(replaced)
        model = models.model_for(spec.model, found.run.failed_attempts)
        text, done = await _written(model, _request(found.run, spec, part), replaced, settings)
        found = await _commit(store, found, notes, text, done)
        if text is None:
            break
    return found


async def _written(
    model: Model, request: TurnRequest, replaced: Spans, settings: Settings
) -> tuple[str | None, Compaction]:
    """The summary, if it is one, and what became of the attempt."""
    now = asyncio.get_running_loop().time
    began_s, reply = now(), None
    try:
        reply = await listen(model, request, lambda _: None, settings)
        failure = _fault(reply)
    except ModelError as error:
        failure = str(error)
    if failure is not None:
        log.warning("summary.failed", error=failure)
    done = Compaction(
        replaced=replaced,
        usage=reply.usage if reply else None,
        latency_ms=round((now() - began_s) * 1000),
        failure=failure,
    )
    return (reply.text if reply and failure is None else None), done


async def _commit(
    store: Store, before: Cleared, notes: Recorder, text: str | None, done: Compaction
) -> Cleared:
    """What is there then. Raises ``StaleTurn`` if the run may not cost more, and so has ended."""
    run = before.run
    notes.summarised(done)
    command = Compact(run.generation, text, done.replaced, done.usage, notes.record)
    changed = await change_run(store, RunRef(run.thread_id, run.id), command)
    if changed.run is None or changed.run.is_final:
        raise StaleTurn(run.id, run.generation, run.status)
    if text is None:
        return replace(before, run=changed.run)
    entries = await store.read_entries(run.thread_id)
    notes.summarised(done.but(seq=entries[-1].seq))
    return Cleared(changed.run, entries)


def _request(run: Run, spec: RunSpec, part: prompt.Part) -> TurnRequest:
    return TurnRequest(
        run_id=run.id,
        spec=spec.but(tools=(), response_format="auto"),
        conversation=to_be_summarised(part.groups),
        turn=run.turns,
        failed_attempts=run.failed_attempts,
        max_completion_tokens=part.summary_tokens,
        is_summary=True,
    )


def _fault(reply: Reply) -> str | None:
    """Why it is no summary: one that was cut off lacks what is newest."""
    if reply.stop is not Stop.DONE:
        return f"The summary was cut off ({reply.stop})."
    if reply.refusal or not (reply.text or "").strip():
        return "The model wrote no summary."
    return None


def _places(groups: Sequence[Group]) -> Spans:
    """A summary that is summarised again hands on what it stood for."""
    return spans({seq for group in groups for seq in (*group.seqs, *places(group.replaces))})
