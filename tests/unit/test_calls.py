"""The ledger of tool calls: who answers, who may claim, which result counts."""

import json
from itertools import permutations

import pytest

from orchestrator.commands import (
    CallLost,
    CallProgress,
    CallResult,
    ClaimCall,
    Outcome,
    ResolveCall,
)
from orchestrator.decide.calls import MAX_LATE_RESULTS
from orchestrator.decisions import (
    EventType,
    KeepOutput,
    QueueTurn,
    SendCall,
    SetTimer,
    StopCall,
    TimerKind,
)
from orchestrator.errors import CallNotOpen, NotAcceptingOutputs, NotFound, OutputsMismatch
from orchestrator.records import CallState, Executor, StepStatus
from orchestrator.states import RunStatus
from tests.unit.play import (
    ACTIVE,
    CALL_LEASE_MS,
    ENDED,
    PUBLISHED,
    TTL_MS,
    Play,
    a_held_call,
    a_round,
    a_turn,
)

TAKES_NO_OUTPUTS = [
    name for name in ACTIVE if name not in {"waiting for the client", "waiting for both"}
]


def error_type(play: Play, call_id: str) -> str:
    """Which error the model is told in place of an output."""
    return str(json.loads(play.outputs[call_id])["error"]["type"])


# -- who answers ---------------------------------------------------------------------------------


def test_published_tools_go_to_workers_and_the_others_to_the_client() -> None:
    play = a_round("look_up", "ask_user")
    worker, client = play.calls
    assert (worker.executor, worker.state) == (Executor.WORKER, CallState.DISPATCHED)
    assert (client.executor, client.state) == (Executor.CLIENT, CallState.REQUIRED)
    order = SendCall(worker.id, PUBLISHED["look_up"].queue, play.run.deadline_ms)
    assert play.effects(SendCall) == [order]


def test_a_call_takes_the_options_of_its_tool_along() -> None:
    (call,) = a_round("update").calls
    tool = PUBLISHED["update"]
    assert (call.queue, call.timeout_s) == (tool.queue, tool.timeout_s)
    assert (call.side_effects, call.max_attempts) == ("idempotent", 2)
    assert call.on_unknown == tool.on_unknown


def test_calls_stay_in_the_models_order_whoever_answers_first() -> None:
    for order in permutations(range(3)):
        play = a_round("look_up", "ask_user", "update")
        ids = [call.id for call in play.calls]
        for place in order:
            if place == 1:
                play.submit({ids[1]: "yes"})
            else:
                play.finish(play.claim(play.calls[place]))
        assert [call.id for call in play.calls] == ids == list(play.steps[0].call_ids)
        assert [call.index for call in play.calls] == [0, 1, 2]
        assert set(play.outputs) == set(ids)
        assert play.status is RunStatus.QUEUED


def test_clients_are_shown_only_their_own_calls_and_only_while_these_wait() -> None:
    play = a_round("look_up", "ask_user")
    worker, client = play.calls
    assert play.decision.events[-1].calls == (client,)
    shown = [(play.status, play.public)]
    play.submit({client.id: "yes"})
    shown.append((play.status, play.public))
    play.finish(play.claim(worker))
    shown.append((play.status, play.public))
    assert shown == [
        (RunStatus.REQUIRES_ACTION, RunStatus.REQUIRES_ACTION),
        (RunStatus.REQUIRES_ACTION, RunStatus.IN_PROGRESS),
        (RunStatus.QUEUED, RunStatus.QUEUED),
    ]


# -- claims --------------------------------------------------------------------------------------


def test_a_claim_gives_a_generation_a_time_limit_and_a_lease() -> None:
    play = a_round("look_up")
    play.later(50)
    call = play.claim(play.calls[0], "worker_7")
    assert (call.state, call.worker, call.generation) == (CallState.STARTED, "worker_7", 1)
    assert call.attempts == 1
    assert call.started_ms == play.now_ms
    assert call.deadline_ms == play.now_ms + 60_000
    (timer,) = play.effects(SetTimer)
    assert isinstance(timer, SetTimer)
    assert (timer.key.kind, timer.key.call_id) == (TimerKind.CALL_LEASE, call.id)
    assert timer.at_ms == play.now_ms + CALL_LEASE_MS


def test_no_call_may_run_past_the_deadline_of_its_run() -> None:
    play = a_round("look_up")
    play.later(TTL_MS - 100)
    call = play.claim(play.calls[0])
    assert call.deadline_ms == play.run.deadline_ms
    assert set(play.world.timers.values()) == {play.run.deadline_ms}


def test_a_call_is_claimed_by_one_worker_only() -> None:
    play = a_round("look_up")
    play.claim(play.calls[0])
    with pytest.raises(CallNotOpen) as refusal:
        play.claim(play.calls[0], "worker_2")
    assert refusal.value.state == CallState.STARTED
    assert play.calls[0].worker == "worker_1"


def test_workers_cannot_claim_the_clients_calls() -> None:
    play = a_round("ask_user")
    with pytest.raises(CallNotOpen):
        play.claim(play.calls[0])


@pytest.mark.parametrize(
    "command",
    [
        ClaimCall("call_99", "worker_1", CALL_LEASE_MS),
        CallResult("call_99", 1, Outcome.SUCCEEDED, "done"),
        CallLost("call_99", 1, "silent"),
        ResolveCall("call_99", "done"),
    ],
)
def test_a_call_that_the_run_never_asked_for_is_not_found(
    command: ClaimCall | CallResult | CallLost | ResolveCall,
) -> None:
    play = a_round("look_up")
    with pytest.raises(NotFound) as refusal:
        play.ask(command)
    assert (refusal.value.kind, refusal.value.object_id) == ("tool call", "call_99")


# -- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", Outcome)
def test_a_result_settles_its_call_and_the_last_one_queues_the_next_turn(outcome: Outcome) -> None:
    play = a_round("look_up")
    call = play.finish(play.claim(play.calls[0]), "it went so", outcome, "it went so")
    assert (call.state, call.error) == (CallState(outcome), "it went so")
    assert play.outputs == {call.id: "it went so"}
    assert play.steps[0].status is StepStatus.COMPLETED
    assert play.events == [
        EventType.CALL_SETTLED,
        EventType.STEP_COMPLETED,
        EventType.RUN_QUEUED,
    ]
    assert play.effects(QueueTurn) == [QueueTurn()]


def test_the_run_waits_until_the_last_output_is_there() -> None:
    play = a_round("look_up", "look_up")
    first, second = [play.claim(call) for call in play.calls]
    play.finish(second)
    assert play.effects(QueueTurn) == []
    play.finish(first)
    assert play.status is RunStatus.QUEUED


def test_a_late_result_is_kept_for_the_record_and_not_applied() -> None:
    play = a_round("update", "ask_user")
    slow = play.claim(play.calls[0])
    quick = play.claim(play.send_again(play.lose(slow)), "worker_2")
    late = play.finish(slow, "from the slow one")
    assert (late.state, late.generation) == (CallState.STARTED, 2)
    assert [(x.generation, x.text) for x in late.late] == [(1, "from the slow one")]
    assert play.events == [EventType.CALL_LATE]
    play.finish(quick, "from the quick one")
    assert play.outputs == {quick.id: "from the quick one"}


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_a_result_that_comes_after_the_end_is_kept_too(status: str) -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    if status == "cancelled":
        play.cancel()
    else:
        play.later(TTL_MS)
    call = play.finish(call, "sorry, late")
    assert play.status.value == status
    assert (call.state, call.late[0].text) == (CallState.CANCELLED, "sorry, late")
    assert error_type(play, call.id) == f"run_{status}"


def test_only_so_many_late_results_are_kept() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.cancel()
    for number in range(MAX_LATE_RESULTS + 2):
        play.finish(call, str(number))
    assert [late.text for late in play.calls[0].late] == ["0", "1", "2", "3", "4"]
    assert (play.decision.events, play.decision.effects) == ((), ())


# -- lost workers --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "attempts"), [("look_up", 3), ("update", 2)])
def test_a_harmless_call_is_sent_again_until_it_was_started_often_enough(
    name: str, attempts: int
) -> None:
    play = a_round(name)
    for attempt in range(1, attempts):
        call = play.lose(play.claim(play.calls[0]))
        assert (call.state, call.attempts) == (CallState.RETRYING, attempt)
        assert (call.worker, call.started_ms, call.deadline_ms) == (None, None, None)
        assert play.events == [EventType.CALL_LOST]
        call = play.send_again(call)
        assert (call.state, call.attempts) == (CallState.DISPATCHED, attempt)
        assert play.events == [EventType.CALL_DISPATCHED]
        assert len(play.effects(SendCall)) == 1
    call = play.lose(play.claim(play.calls[0]))
    assert (call.state, call.attempts) == (CallState.FAILED, attempts)
    assert error_type(play, call.id) == "lost"
    assert play.effects(SendCall) == []
    assert play.status is RunStatus.QUEUED


def test_a_call_that_may_run_only_once_is_not_sent_again_and_the_model_is_told() -> None:
    play = a_round("charge")
    call = play.lose(play.claim(play.calls[0]))
    assert (call.state, call.attempts) == (CallState.UNKNOWN, 1)
    assert error_type(play, call.id) == "unknown_outcome"
    assert play.effects(SendCall) == []
    assert play.status is RunStatus.QUEUED


def test_a_held_call_waits_for_an_operator_and_is_not_claimed_again() -> None:
    play = a_held_call()
    call = play.calls[0]
    assert (call.state, call.is_settled) == (CallState.UNKNOWN, False)
    assert (play.status, play.public) == (RunStatus.REQUIRES_ACTION, RunStatus.IN_PROGRESS)
    with pytest.raises(CallNotOpen):
        play.claim(call)
    with pytest.raises(CallNotOpen):
        play.lose(call)
    play.resolve(call, "The money arrived.")
    assert play.outputs == {call.id: "The money arrived."}
    assert play.status is RunStatus.QUEUED


def test_a_held_call_that_nobody_resolves_ends_with_its_run_as_unknown() -> None:
    play = a_held_call()
    play.later(TTL_MS)
    play.expire()
    assert play.calls[0].state is CallState.UNKNOWN
    assert error_type(play, play.calls[0].id) == "run_expired"


def test_a_worker_that_is_called_lost_twice_is_lost_once() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.lose(call)
    with pytest.raises(CallNotOpen):
        play.lose(call)
    assert play.claim(play.send_again(play.calls[0])).generation == 2


def test_a_call_that_was_answered_is_not_lost_any_more() -> None:
    play = a_round("charge", "ask_user")
    call = play.claim(play.calls[0])
    play.finish(call)
    with pytest.raises(CallNotOpen):
        play.lose(call)
    assert play.calls[0].state is CallState.SUCCEEDED


def test_the_reason_of_a_lost_attempt_is_forgotten_when_a_later_one_succeeds() -> None:
    play = a_round("update")
    call = play.lose(play.claim(play.calls[0]))
    assert call.error == "its worker is silent"
    assert play.finish(play.claim(play.send_again(call))).error is None


# -- what is told of a call ----------------------------------------------------------------------


def test_progress_is_told_and_belongs_to_the_attempt() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.ask(CallProgress(call.id, 1, "half"))
    assert (play.call(call).progress, play.events) == ("half", [EventType.CALL_PROGRESS])
    play.send_again(play.lose(call))
    assert play.call(call).progress is None
    with pytest.raises(CallNotOpen):
        play.ask(CallProgress(call.id, 1, "still half"))


def test_the_whole_of_a_cut_output_is_kept_and_a_drift_is_noted() -> None:
    play = a_round("look_up")
    call = play.finish(play.claim(play.calls[0]), full="all of it", drift="{a} became {b}")
    assert (call.has_full_output, call.drift) == (True, "{a} became {b}")
    assert play.effects(KeepOutput) == [KeepOutput(call.id, "all of it")]


# -- the client's outputs ------------------------------------------------------------------------


def test_the_client_answers_all_of_its_calls_in_any_order() -> None:
    play = a_round("ask_user", "ask_user")
    first, second = play.calls
    play.submit([(second.id, "2"), (first.id, "1")])
    assert play.outputs == {first.id: "1", second.id: "2"}
    assert {call.state for call in play.calls} == {CallState.SUCCEEDED}
    assert play.status is RunStatus.QUEUED


def test_partial_doubled_foreign_and_workers_outputs_are_refused_without_change() -> None:
    play = a_round("ask_user", "ask_user", "look_up")
    first, second, worker = (call.id for call in play.calls)
    world = play.world
    for ids in (
        [first],
        [first, first],
        [first, second, second],
        [first, second, "call_99"],
        [first, second, worker],
        [],
    ):
        with pytest.raises(OutputsMismatch) as refusal:
            play.submit([(call_id, "yes") for call_id in ids])
        assert (refusal.value.expected, refusal.value.got) == ([first, second], ids)
    assert play.world == world


@pytest.mark.parametrize("situation", [*TAKES_NO_OUTPUTS, *ENDED])
def test_a_run_that_does_not_wait_for_the_client_takes_no_outputs(situation: str) -> None:
    play = {**ACTIVE, **ENDED}[situation]()
    with pytest.raises(NotAcceptingOutputs) as refusal:
        play.submit([(call.id, "yes") for call in play.calls])
    assert refusal.value.status == play.public


def test_outputs_that_are_submitted_twice_are_applied_once() -> None:
    play = a_round("ask_user")
    play.submit({play.calls[0].id: "yes"})
    with pytest.raises(NotAcceptingOutputs):
        play.submit({play.calls[0].id: "no"})
    assert play.outputs == {play.calls[0].id: "yes"}


def test_outputs_that_come_at_the_deadline_find_the_run_expired() -> None:
    play = a_round("ask_user")
    play.later(TTL_MS)
    with pytest.raises(NotAcceptingOutputs) as refusal:
        play.submit({play.calls[0].id: "yes"})
    assert refusal.value.status == "expired"


# -- operators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_started", [False, True])
def test_an_operator_answers_a_call_and_whoever_is_at_it_is_stopped(is_started: bool) -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0]) if is_started else play.calls[0]
    play.resolve(call, "42")
    assert play.effects(StopCall) == [StopCall(call.id, "tools", call.worker)]
    assert play.outputs == {call.id: "42"}
    assert play.status is RunStatus.QUEUED


def test_an_operator_can_answer_for_the_client() -> None:
    play = a_round("ask_user")
    play.resolve(play.calls[0], "42")
    assert play.effects(StopCall) == []
    assert play.status is RunStatus.QUEUED


def test_an_operator_cannot_answer_what_has_been_answered() -> None:
    play = a_round("ask_user", "look_up")
    play.submit({play.calls[0].id: "yes"})
    with pytest.raises(CallNotOpen) as refusal:
        play.resolve(play.calls[0], "no")
    assert refusal.value.state == CallState.SUCCEEDED


@pytest.mark.parametrize("state", [CallState.FAILED, CallState.CANCELLED])
def test_an_operator_may_end_a_call_without_success(state: CallState) -> None:
    play = a_round("look_up", "charge")
    play.resolve(play.calls[0], "Not now.", state=state)
    assert (play.calls[0].state, play.outputs) == (state, {play.calls[0].id: "Not now."})
    assert play.calls[0].error == "An operator ended this call."


def test_an_operator_may_have_a_held_call_done_again() -> None:
    play = a_held_call()
    call = play.requeue_call(play.calls[0])
    assert (call.state, call.allowed_again) == (CallState.DISPATCHED, 1)
    assert play.finish(play.claim(call)).attempts == 2
    assert play.status is RunStatus.QUEUED


@pytest.mark.parametrize("is_started", [False, True])
def test_a_call_that_an_operator_sends_again_is_stopped_first(is_started: bool) -> None:
    play = a_round("charge")
    first = play.claim(play.calls[0]) if is_started else play.calls[0]
    call = play.requeue_call(first)
    assert len(play.effects(StopCall)) == len(play.effects(SendCall)) == 1
    second = play.claim(call)
    if is_started:
        assert play.finish(first).state is CallState.STARTED
        assert play.events == [EventType.CALL_LATE]
    assert play.finish(second).state is CallState.SUCCEEDED


def test_only_an_open_call_of_a_worker_can_be_sent_again() -> None:
    play = a_round("look_up", "ask_user")
    play.finish(play.claim(play.calls[0]))
    for call in play.calls:
        with pytest.raises(CallNotOpen):
            play.requeue_call(call)


# -- rounds --------------------------------------------------------------------------------------


def test_a_second_round_is_a_step_of_its_own() -> None:
    play = a_round("look_up")
    play.finish(play.claim(play.calls[0]))
    play.start()
    play.reply("look_up", "ask_user")
    assert [step.call_ids for step in play.steps] == [("call_1",), ("call_2", "call_3")]
    assert [step.status for step in play.steps] == [StepStatus.COMPLETED, StepStatus.IN_PROGRESS]
    assert play.run.turns == 2


def test_a_tool_that_nobody_serves_is_the_clients() -> None:
    play = a_turn()
    (call,) = play.reply("look_up", published={})
    assert call.executor is Executor.CLIENT
