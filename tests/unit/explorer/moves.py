"""Who can do what next: the commands that may reach a stored run, and how its work changes hands.

A token is a subject and the place where its work is: a turn on the ready stream, taken by an engine
that has not started it, with an engine; a call on the outbox, on its queue, popped by a worker that
has not claimed it, with a worker. A crash loses a token, puts it back, or leaves a second one. An
engine or worker whose work has been given to others stays as an "old" one: it does not know.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from orchestrator.commands import (
    AnswerApprovals,
    Approval,
    CallLost,
    CallResult,
    Cancel,
    CheckWait,
    ClaimCall,
    Command,
    Compact,
    ConfirmCancel,
    DeleteThread,
    Expire,
    Outcome,
    PostponeCall,
    RequeueCall,
    RequeueTurn,
    ResolveCall,
    RetryCall,
    StartTurn,
    SubmitOutputs,
    TimeOutApproval,
)
from orchestrator.conversation import grouped
from orchestrator.decisions import Effect, QueueTurn, SendCall, TimerKind
from orchestrator.records import Aggregate, CallState, Run, ToolCall, Usage
from orchestrator.states import RunStatus
from orchestrator.turn_record import spans
from tests.unit.explorer.history import STALE, open_round
from tests.unit.explorer.scenario import NEXT_ID, RUN_ID, Scenario
from tests.unit.play import CALL_LEASE_MS, TURN_LEASE_MS, WATCHDOG_MS
from tests.unit.world import World, a_record, due_command

Token = tuple[str, str]
Tokens = frozenset[Token]

STREAM: Final[Token] = ("turn", "stream")
TAKEN: Final[Token] = ("turn", "taken")
TURN: Final[Token] = ("turn", "engine")
OLD_TURN: Final[Token] = ("turn", "old engine")


class Actor(StrEnum):
    """Who makes a move. ``late``: what still comes of calls of an earlier round."""

    CLIENT = "client"
    OPERATOR = "operator"
    ENGINE = "engine"
    WORKER = "worker"
    CRASH = "crash"
    CLOCK = "clock"
    DEADLINE = "deadline"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Move:
    """A command that reaches a run, or (without one) work that changes hands.

    ``needs`` is the token that it takes and uses up, ``gives`` what it leaves if it is accepted.
    ``is_void``: it must not change the run.
    """

    actor: Actor
    name: str
    command: Command | None = None
    needs: Token | None = None
    gives: Tokens = frozenset()
    is_void: bool = False
    run_id: str = RUN_ID


def moves(world: World, scenario: Scenario) -> Iterator[Move]:
    """Every move that may be possible with this run; tokens decide which ones are."""
    if world.thread.is_deleted:
        return
    run, aggregate = world.run(RUN_ID), world.load(RUN_ID)
    yield from _client(aggregate)
    yield from _next_run(world, scenario)
    yield from _engine(run, scenario)
    if scenario.is_compacted:
        yield from _compaction(world, run)
    yield from _old_engine(run, scenario)
    current = open_round(aggregate)
    for call in aggregate.calls:
        if call in current:
            yield from _delivery(call)
            yield from _worker(call, scenario)
            yield from _old_worker(call, Actor.WORKER, (call.id, "old worker"))
        else:
            yield from _old_worker(call, Actor.LATE, None)
    yield from _clock(world)


def work_of(effect: Effect) -> Tokens:
    """Where work is that was just asked for. The job of a call that is to be stopped may turn up
    all the same, so stopping takes nothing away.
    """
    match effect:
        case QueueTurn(run_id=None):
            return frozenset({STREAM})
        case SendCall(is_repeat=False):
            return frozenset({(effect.call_id, "outbox")})
        case _:
            return frozenset()


def meaningful(world: World) -> Tokens:
    """The tokens that can matter to a run; of an earlier round none does."""
    tokens = {STREAM, TAKEN, OLD_TURN}
    if world.run(RUN_ID).status in {RunStatus.IN_PROGRESS, RunStatus.CANCELLING}:
        tokens |= {TURN}
    for call in open_round(world.load(RUN_ID)):
        tokens |= {(call.id, place) for place in ("outbox", "queue", "popped", "old worker")}
        if call.state is CallState.STARTED:
            tokens |= {(call.id, "worker")}
    return frozenset(tokens)


def carry(tokens: Tokens, target: Tokens) -> Tokens:
    """The tokens after a move to a run to which only ``target`` can matter."""
    over = {(subject, f"old {place}") for subject, place in tokens - target}
    return (tokens | over) & target


def _client(aggregate: Aggregate) -> Iterator[Move]:
    yield Move(Actor.CLIENT, "cancel", Cancel(WATCHDOG_MS))
    waiting = tuple((call.id, "yes") for call in aggregate.client_calls())
    others = tuple((call.id, "yes") for call in aggregate.calls if call.state != "required")
    yield Move(Actor.CLIENT, "submit", SubmitOutputs(waiting))
    wrong = {
        "part": waiting[1:],
        "twice": waiting * 2,
        "more": (*waiting, ("call_of_nobody", "yes")),
        "all": waiting + others,
    }
    for name, outputs in wrong.items():
        if outputs != waiting:
            yield Move(Actor.CLIENT, f"submit {name}", SubmitOutputs(outputs), is_void=True)
    for call in aggregate.calls:
        if call.on_unknown == "hold":
            yield Move(Actor.OPERATOR, f"resolve {call.id}", ResolveCall(call.id, "It did."))
            if not call.allowed_again:
                yield Move(Actor.OPERATOR, f"requeue {call.id}", RequeueCall(call.id))
        if call.approve_by_ms is not None:
            yield from _approvals(call)


def _approvals(call: ToolCall) -> Iterator[Move]:
    is_void = call.state is not CallState.AWAITING_APPROVAL
    for verb, is_approved in {"approve": True, "reject": False}.items():
        answer = AnswerApprovals((Approval(call.id, is_approved),))
        yield Move(Actor.OPERATOR, f"{verb} {call.id}", answer, is_void=is_void)
    if is_void:
        yield Move(Actor.CLOCK, f"old timer {call.id}", TimeOutApproval(call.id), is_void=True)
    else:
        yield Move(Actor.OPERATOR, f"requeue {call.id}", RequeueCall(call.id), is_void=True)


def _next_run(world: World, scenario: Scenario) -> Iterator[Move]:
    for command in scenario.texts:
        if isinstance(command, DeleteThread):
            yield Move(Actor.CLIENT, "delete", command)
        elif NEXT_ID not in world.runs and world.thread.active_run_id == RUN_ID:
            yield Move(Actor.CLIENT, "text", command)
    if any(one.run_id == NEXT_ID for one in world.thread.waiting):
        start = StartTurn("engine", TURN_LEASE_MS)
        yield Move(Actor.ENGINE, "start next", start, is_void=True, run_id=NEXT_ID)
        yield Move(Actor.CLIENT, "cancel next", Cancel(WATCHDOG_MS), run_id=NEXT_ID)
        yield Move(Actor.DEADLINE, "deadline next", Expire(), run_id=NEXT_ID)


def _engine(run: Run, scenario: Scenario) -> Iterator[Move]:
    start = StartTurn("engine", TURN_LEASE_MS)
    yield Move(Actor.ENGINE, "take", needs=STREAM, gives=frozenset({TAKEN}))
    yield Move(Actor.CRASH, "take", needs=TAKEN, gives=frozenset({STREAM}))
    yield Move(Actor.ENGINE, "start", start, needs=TAKEN, gives=frozenset({TURN}))
    yield Move(Actor.CRASH, "start", start, needs=TAKEN, gives=frozenset({TURN, TAKEN}))
    yield Move(Actor.CRASH, "turn", needs=TURN)
    for name, opening in scenario.openings(run, run.generation).items():
        yield Move(Actor.ENGINE, name, opening, needs=TURN, gives=frozenset({TURN}))
    for name, ending in scenario.endings(run, run.generation).items():
        yield Move(Actor.ENGINE, name, ending, needs=TURN)
    hand_back = RequeueTurn(run.generation, record=a_record(run, run.generation))
    yield Move(Actor.ENGINE, "hand back", hand_back, needs=TURN)
    if run.status is RunStatus.CANCELLING:
        yield Move(Actor.ENGINE, "let go", ConfirmCancel(), needs=TURN)


def _compaction(world: World, run: Run) -> Iterator[Move]:
    """A summary of the first round, once; an engine that is late may try it at any time."""
    places = spans(seq for group in grouped(world.entries)[:1] for seq in group.seqs)
    old = Compact(STALE, "It was about lighthouses.", places, None)
    yield Move(Actor.ENGINE, "old compact", old, needs=OLD_TURN, is_void=True)
    if run.turns and run.summary_usage is None:
        compact = replace(old, generation=run.generation, usage=Usage(prompt_tokens=5))
        gives = frozenset({TURN})
        yield Move(Actor.ENGINE, "compact", compact, needs=TURN, gives=gives)


def _old_engine(run: Run, scenario: Scenario) -> Iterator[Move]:
    yield Move(Actor.CRASH, "old turn", needs=OLD_TURN)
    news = scenario.openings(run, STALE) | scenario.endings(run, STALE)
    for name, command in news.items():
        yield Move(Actor.ENGINE, f"old {name}", command, needs=OLD_TURN, is_void=True)
    yield Move(Actor.ENGINE, "old hand back", RequeueTurn(STALE), needs=OLD_TURN, is_void=True)
    if run.status is not RunStatus.CANCELLING:
        yield Move(Actor.ENGINE, "old let go", ConfirmCancel(), needs=OLD_TURN, is_void=True)


def _delivery(call: ToolCall) -> Iterator[Move]:
    outbox, queue, popped = ((call.id, place) for place in ("outbox", "queue", "popped"))
    yield Move(Actor.ENGINE, f"send {call.id}", needs=outbox, gives=frozenset({queue}))
    yield Move(Actor.CRASH, f"send {call.id}", needs=outbox, gives=frozenset({outbox, queue}))
    yield Move(Actor.WORKER, f"pop {call.id}", needs=queue, gives=frozenset({popped}))
    yield Move(Actor.CRASH, f"pop {call.id}", needs=popped, gives=frozenset({queue}))


def _worker(call: ToolCall, scenario: Scenario) -> Iterator[Move]:
    queue, popped, worker = ((call.id, place) for place in ("queue", "popped", "worker"))
    claim = ClaimCall(call.id, "worker", CALL_LEASE_MS, nonce=str(call.generation + 1))
    yield Move(Actor.WORKER, f"claim {call.id}", claim, popped, frozenset({worker}))
    if call.state is CallState.STARTED:
        again = replace(claim, nonce=str(call.generation))
        gives = frozenset({worker})
        yield Move(Actor.WORKER, f"claim {call.id} again", again, worker, gives, is_void=True)
    yield Move(Actor.CRASH, f"claim {call.id}", claim, popped, frozenset({worker, queue}))
    if scenario.is_postponed:
        postpone = PostponeCall(call.id, call.generation, "its process died")
        yield Move(Actor.WORKER, f"postpone {call.id}", postpone, popped)
        yield Move(Actor.CRASH, f"postpone {call.id}", postpone, popped, frozenset({queue}))
    yield Move(Actor.CRASH, f"work {call.id}", needs=worker)
    lost = CallLost(call.id, call.generation, "its process died")
    yield Move(Actor.WORKER, f"lose {call.id}", lost, needs=worker)
    if scenario.is_retried:
        retry = RetryCall(call.id, call.generation, "It failed.", "its process died")
        yield Move(Actor.WORKER, f"retry {call.id}", retry, needs=worker)
    for outcome in Outcome:
        result = CallResult(call.id, call.generation, outcome, outcome)
        yield Move(Actor.WORKER, f"{outcome} {call.id}", result, needs=worker)


def _old_worker(call: ToolCall, actor: Actor, needs: Token | None) -> Iterator[Move]:
    generation = call.generation - int(call.state is CallState.STARTED)
    lost = CallLost(call.id, generation, "its process died")
    yield Move(actor, f"old lose {call.id}", lost, needs, is_void=True)
    result = CallResult(call.id, generation, Outcome.SUCCEEDED, "too late")
    yield Move(actor, f"old finish {call.id}", result, needs, is_void=True)
    retry = RetryCall(call.id, generation, "too late", "too late")
    yield Move(actor, f"old retry {call.id}", retry, needs, is_void=True)
    if needs:
        yield Move(Actor.CRASH, f"old {call.id}", needs=needs)
    else:
        claim = ClaimCall(call.id, "worker", CALL_LEASE_MS)
        yield Move(actor, f"old claim {call.id}", claim, is_void=True)


def _clock(world: World) -> Iterator[Move]:
    for run_id, key in world.timers:
        if run_id != RUN_ID:
            continue
        actor = Actor.DEADLINE if key.kind is TimerKind.DEADLINE else Actor.CLOCK
        yield Move(actor, f"{key.kind} {key.call_id or ''}", due_command(key))
        if key.kind is TimerKind.CALL_WAIT:
            unserved = CheckWait(key.call_id or "", key.generation, frozenset(), 0)
            yield Move(actor, f"unserved {key.call_id}", unserved)
