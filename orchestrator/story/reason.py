"""Why a run is where it is, in a sentence or two."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from orchestrator.records import CallState, Run, ToolCall
from orchestrator.states import RunStatus
from orchestrator.store import RunView
from orchestrator.story.words import as_call, counted, duration, one_line


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What has to be known beside the run. ``ahead``: the run of its thread that it waits for;
    ``has_engine``: one is alive; ``unserved``: queues that no live worker listens to; ``failures``:
    what was wrong with its failed model calls, in their order.
    """

    ahead: str | None = None
    has_engine: bool = True
    unserved: Collection[str] = ()
    failures: Sequence[str] = ()


def reason(view: RunView, around: Surroundings) -> str:
    """Why the run is where it is, and whether its model makes trouble."""
    sentence = _sentence(view, around)
    if not around.failures:
        return sentence
    last = one_line(around.failures[-1], 300).rstrip(".")
    said = "" if view.run.status is RunStatus.FAILED else f", the last one with: {last}"
    return f"{sentence} {counted(len(around.failures), 'model call')} failed so far{said}."


def _sentence(view: RunView, around: Surroundings) -> str:  # noqa: PLR0911 - one for each status
    run = view.run
    match run.status:
        case RunStatus.QUEUED:
            return _queued(run, around)
        case RunStatus.IN_PROGRESS:
            since = duration((view.now_ms - (run.started_ms or run.created_ms)) / 1000)
            asking = f"{run.engine} is asking {one_line(view.spec.model)}"
            return f"{asking} for turn {run.turns}, for {since} so far."
        case RunStatus.REQUIRES_ACTION:
            return " ".join(_waits(view, around.unserved))
        case RunStatus.CANCELLING:
            return f"It is to be cancelled, and {run.engine} has yet to let go of the model."
        case RunStatus.FAILED:
            error = run.last_error
            return f"{one_line(error.message, 500)} ({error.code})" if error else "It failed."
        case RunStatus.INCOMPLETE:
            return run.incomplete_message or f"It was cut off by {run.incomplete_reason}."
        case RunStatus.COMPLETED:
            took = duration(((run.completed_ms or run.updated_ms) - run.created_ms) / 1000)
            work = f"{counted(run.turns, 'turn')} and {counted(len(view.calls), 'tool call')}"
            if run.stopped_by:
                return f"The guardrail {run.stopped_by} refused it after {work}, in {took}."
            return f"The model gave its answer after {work}, in {took}."
        case RunStatus.CANCELLED:
            return f"It was cancelled.{_unanswered(view.calls)}"
        case RunStatus.EXPIRED:
            limit = duration((run.deadline_ms - run.created_ms) / 1000)
            return f"It had not ended after {limit}, its time.{_unanswered(view.calls)}"
        case _:
            assert_never(run.status)


def _queued(run: Run, around: Surroundings) -> str:
    if around.ahead:
        return f"It waits for {around.ahead}, the active run of its thread, to end."
    alone = "" if around.has_engine else " None is alive."
    return f"It waits for an engine to take turn {run.turns}.{alone}"


def _waits(view: RunView, unserved: Collection[str]) -> Iterator[str]:
    """A sentence for each thing that is waited for."""
    calls = [call for call in view.calls if not call.is_settled]
    if names := _names(calls, CallState.REQUIRED):
        yield f"The client has to answer {names}."
    if names := _names(calls, CallState.AWAITING_APPROVAL):
        yield f"Somebody has to approve or reject {names}."
    for call in calls:
        if call.state is CallState.STARTED:
            since = duration((view.now_ms - (call.started_ms or call.created_ms)) / 1000)
            progress = f" It says: {one_line(call.progress)}." if call.progress else ""
            yield f"{call.worker} executes {_name(call)}, for {since} so far.{progress}"
    for queue in sorted({call.queue or "" for call in calls if call.state is CallState.DISPATCHED}):
        names = _names((call for call in calls if call.queue == queue), CallState.DISPATCHED)
        alone = " No live worker listens to it." if queue in unserved else ""
        yield f"On the queue {queue}, for a worker: {names}.{alone}"
    if names := _names(calls, CallState.RETRYING):
        yield f"To be started again after a pause: {names}."
    if names := _names(calls, CallState.UNKNOWN):
        yield f"An operator has to find out whether it took effect: {names}."


def _unanswered(calls: Iterable[ToolCall]) -> str:
    names = _names(calls, CallState.CANCELLED)
    return f" No answer had come from {names}." if names else ""


def _names(calls: Iterable[ToolCall], state: CallState) -> str:
    return ", ".join(_name(call) for call in calls if call.state is state)


def _name(call: ToolCall) -> str:
    return as_call(call.name, call.arguments)
