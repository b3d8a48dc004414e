"""What a walk forgets, so that it comes to an end: what no rule can see any more.

That is how often a turn was taken, what came too late, and how the calls of earlier rounds ended.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Final

from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.records import (
    Aggregate,
    CallState,
    Entry,
    Executor,
    Output,
    StepStatus,
    ToolCall,
)
from tests.unit.explorer.scenario import RUN_ID
from tests.unit.world import World

CURRENT: Final = 1
STALE: Final = 0
"""All that matters of a turn's generation."""


def without_history(world: World) -> World:
    """The world as far as rules can see it."""
    run, aggregate = world.run(RUN_ID), world.load(RUN_ID)
    over = _calls_of_earlier_rounds(aggregate)
    seqs = dict(zip(over, sorted(over.values()), strict=True))
    calls = tuple(
        _forgotten(call, seqs[call.id]) if call.id in seqs else _without_late(call)
        for call in aggregate.calls
    )
    run = run.but(generation=min(run.generation, CURRENT))
    return replace(
        world,
        runs={**world.runs, RUN_ID: aggregate.but(run=run, calls=calls)},
        entries=_in_order_of_asking(world.entries, seqs),
        timers={(owner, _current(timer)): at_ms for (owner, timer), at_ms in world.timers.items()},
        orders=(),
        log=(),
    )


def fingerprint(world: World) -> str:
    """The same for worlds that are the same."""
    runs = (world.load(run_id).but(spec=None) for run_id in world.runs)
    documents = (*runs, *world.entries)
    return "\n".join(document.model_dump_json() for document in documents)


def open_round(aggregate: Aggregate) -> list[ToolCall]:
    """The calls of the round that is not over."""
    return [call for call in aggregate.calls if call.step_id in _open_steps(aggregate)]


def _calls_of_earlier_rounds(aggregate: Aggregate) -> dict[str, int]:
    """Each with the place of its output."""
    steps = _open_steps(aggregate)
    return {call.id: call.output_seq or 0 for call in aggregate.calls if call.step_id not in steps}


def _open_steps(aggregate: Aggregate) -> set[str]:
    return {step.id for step in aggregate.steps if step.status is StepStatus.IN_PROGRESS}


def _without_late(call: ToolCall) -> ToolCall:
    """``answered`` matters to what is late only, ``nonce`` to a claim that is repeated."""
    nonce = call.nonce if call.state is CallState.STARTED else None
    return call.but(late=(), answered=0, nonce=nonce)


def _forgotten(call: ToolCall, output_seq: int) -> ToolCall:
    attempts = int(call.executor is Executor.WORKER)
    return call.but(
        state=CallState.SUCCEEDED,
        attempts=attempts,
        generation=attempts,
        nonce=None,
        answered=0,
        allowed_again=0,
        worker=None,
        dispatched_ms=None,
        started_ms=None,
        finished_ms=None,
        deadline_ms=None,
        approve_by_ms=None,
        approved_ms=None,
        output_seq=output_seq,
        error=None,
        late=(),
    )


def _in_order_of_asking(entries: tuple[Entry, ...], seqs: dict[str, int]) -> tuple[Entry, ...]:
    moved = (
        entry.but(seq=seqs[entry.call_id], text="")
        if isinstance(entry, Output) and entry.call_id in seqs
        else entry
        for entry in entries
    )
    return tuple(sorted(moved, key=attrgetter("seq")))


def _current(timer: TimerKey) -> TimerKey:
    is_turn = timer.kind is TimerKind.TURN_LEASE
    return replace(timer, generation=CURRENT) if is_turn else timer
