"""What people are told of a run: what happened, why it is where it is, where the time went."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.commands import CallProgress
from orchestrator.decisions import Event, EventType
from orchestrator.records import CallState, Executor, LateResult, ToolCall
from orchestrator.store import RunView
from orchestrator.story.reason import Surroundings, reason
from orchestrator.story.time_spent import Place, time_spent
from orchestrator.story.timeline import Happening, timeline
from orchestrator.story.words import as_call, duration
from tests.unit.play import (
    ACTIVE,
    ENDED,
    Play,
    a_held_call,
    a_round,
    a_run,
    a_turn,
)


def event(kind: EventType, at_ms: int, public: str = "", detail: str | None = None) -> Event:
    """A line of the log; the status is the one that the event is named after."""
    status = kind.split(".")[1]
    public = public or status
    return Event(type=kind, at_ms=at_ms, status=status, public_status=public, detail=detail)


def call(**changes: Any) -> ToolCall:
    plain = ToolCall(
        id="call_1",
        step_id="step_1",
        index=0,
        name="look_up",
        arguments="{}",
        executor=Executor.WORKER,
        state=CallState.DISPATCHED,
        created_ms=1200,
    )
    return plain.but(**changes)


CREATED = [event(EventType.RUN_CREATED, 1000), event(EventType.RUN_QUEUED, 1000)]
ANSWERED = {"state": CallState.SUCCEEDED, "attempts": 1, "worker": "w7"}


def told(story: list[Happening]) -> list[str]:
    return [f"{happening.subject} {happening.text}" for happening in story]


# -- what happened ---------------------------------------------------------------------------------


def test_a_status_that_clients_see_otherwise_is_told_twice() -> None:
    waiting = event(EventType.RUN_REQUIRES_ACTION, 1200, "in_progress")
    assert told(timeline([], [waiting])) == ["run requires_action (clients see in_progress)"]


def test_the_detail_of_an_event_is_told_on_one_line() -> None:
    lost = event(EventType.TURN_LOST, 1200, detail="engine\n\x1b[2J7")
    assert told(timeline([], [lost])) == ["turn lost: engine [2J7"]


def test_what_a_guardrail_did_is_told() -> None:
    fired = Event(
        type=EventType.GUARD_FIRED,
        at_ms=1200,
        status="in_progress",
        public_status="in_progress",
        detail="no_spoilers (output) stopped msg_1",
    )
    assert told(timeline([], [fired])) == ["guard fired: no_spoilers (output) stopped msg_1"]


def test_a_call_is_told_from_the_asking_to_the_answer() -> None:
    settled = call(
        arguments='{"search": "tea", "limit": 3}', started_ms=1250, finished_ms=1262, **ANSWERED
    )
    assert told(timeline([settled], CREATED)) == [
        "run queued",
        'call look_up(search="tea", limit=3) asked for',
        'call look_up(search="tea", limit=3) started on w7',
        'call look_up(search="tea", limit=3) succeeded after 12 ms, by w7',
    ]


def test_a_call_that_nobody_executes_is_told_as_asked_for_and_refused() -> None:
    refused = call(executor=Executor.REFUSED, state=CallState.FAILED, finished_ms=1200, error="No.")
    assert told(timeline([refused], [])) == [
        "call look_up() asked for",
        "call look_up() refused: No.",
    ]


def test_an_approval_is_told() -> None:
    settled = call(approve_by_ms=9000, approved_ms=1300, executor=Executor.WORKER)
    assert told(timeline([settled], [])) == [
        "call look_up() asked for, to be approved",
        "call look_up() approved",
    ]


def test_a_failed_second_attempt_is_told_with_its_error_and_what_came_late() -> None:
    settled = call(
        arguments="{not JSON",
        state=CallState.FAILED,
        attempts=2,
        worker="w7",
        started_ms=1250,
        finished_ms=3250,
        error="ValueError",
        late=(LateResult(at_ms=9000, generation=1, text=""),),
    )
    assert told(timeline([settled], [])) == [
        "call look_up({not JSON) asked for",
        "call look_up({not JSON) started on w7, attempt 2",
        "call look_up({not JSON) failed after 2.0 s, by w7: ValueError",
        "call look_up({not JSON) came late and was not used",
    ]


def test_within_a_millisecond_the_cause_comes_first() -> None:
    log = [event(EventType.RUN_REQUIRES_ACTION, 1200), event(EventType.RUN_QUEUED, 1262)]
    assert told(timeline([call(started_ms=1200, finished_ms=1262, **ANSWERED)], log)) == [
        "run requires_action",
        "call look_up() asked for",
        "call look_up() started on w7",
        "call look_up() succeeded after 62 ms, by w7",
        "run queued",
    ]


def test_later_there_is_only_more_to_tell() -> None:
    early = timeline([call()], CREATED)
    ended = [*CREATED, event(EventType.RUN_COMPLETED, 5000)]
    assert set(early) < set(timeline([call(started_ms=1250, finished_ms=1262, **ANSWERED)], ended))


def test_a_call_that_is_no_object_is_shown_as_it_was_written() -> None:
    assert as_call("add", "[1, 2]") == "add([1, 2])"
    assert as_call("add", '{"text": "' + "x" * 100 + '"}').endswith("…")


def test_durations_are_short() -> None:
    times = (None, 0.0081, 3.21, 750)
    assert [duration(time) for time in times] == ["-", "8 ms", "3.2 s", "12 min"]


# -- why -------------------------------------------------------------------------------------------


def why(play: Play, **known: Any) -> str:
    loaded = play.world.load(play.run_id)
    assert loaded.run is not None
    assert loaded.spec is not None
    view = RunView(loaded.run, loaded.spec, loaded.steps, loaded.calls, play.now_ms)
    return reason(view, Surroundings(**known))


@pytest.mark.parametrize("situation", [*ACTIVE.values(), *ENDED.values()])
def test_there_is_a_reason_in_every_situation(situation: Callable[[], Play]) -> None:
    assert why(situation()).endswith((".", ")"))


def test_a_queued_run_says_whom_it_waits_for() -> None:
    assert why(a_run()) == "It waits for an engine to take turn 0."
    assert why(a_run(), has_engine=False).endswith("None is alive.")
    assert "waits for run_7, the active run" in why(a_run(), ahead="run_7")


def test_a_turn_says_which_model_is_asked_by_whom_and_for_how_long() -> None:
    play = a_turn()
    play.later(3_200)
    assert why(play) == "engine_1 is asking scripted/none for turn 0, for 3.2 s so far."


def test_what_was_wrong_with_the_model_is_told_while_it_is_asked_again_and_afterwards() -> None:
    failures = ["It is down.", "It is\nbusy."]
    assert why(a_turn(), failures=failures).endswith(
        "so far. 2 model calls failed so far, the last one with: It is busy."
    )
    assert why(ENDED["failed"](), failures=failures) == (
        "It broke. (server_error) 2 model calls failed so far."
    )


def test_every_call_that_is_waited_for_is_named_with_whoever_has_it() -> None:
    play = a_round("ask_user", "look_up", "charge", "refund", "update")
    started = play.claim(play.calls[2], "w7")
    play.ask(CallProgress(started.id, 1, "half\nway"))
    play.lose(play.claim(play.calls[4]))
    play.later(500)
    assert why(play, unserved=["tools"]) == (
        "The client has to answer ask_user(). Somebody has to approve or reject refund()."
        " w7 executes charge(), for 500 ms so far. It says: half way."
        " On the queue tools, for a worker: look_up(). No live worker listens to it."
        " To be started again after a pause: update()."
    )
    assert "No live worker" not in why(play)


def test_a_held_call_is_a_matter_for_an_operator() -> None:
    assert why(a_held_call()) == "An operator has to find out whether it took effect: transfer()."


def test_an_end_says_what_led_to_it() -> None:
    expired = ENDED["expired"]()
    assert why(expired) == (
        "It had not ended after 10 min, its time. No answer had come from ask_user()."
    )
    assert why(ENDED["failed"]()) == "It broke. (server_error)"
    assert "cut off" in why(ENDED["incomplete"]())
    assert why(ENDED["completed"]()).startswith("The model gave its answer after 1 turn and 0 tool")
    refused = a_turn()
    refused.guard(0, refusal="Not here.")
    assert why(refused).startswith("The guardrail no_names refused it after 0 turns and 0 tool")


# -- where the time went ---------------------------------------------------------------------------


def spent(play: Play) -> list[tuple[Place, int]]:
    """Where the run was, and for how long."""
    spans = time_spent(play.world.log, play.now_ms)
    return [(span.place, span.to_ms - span.from_ms) for span in spans]


def test_each_millisecond_of_a_run_is_in_one_place() -> None:
    play = a_run()
    play.later(10)
    play.start()
    play.later(200)
    play.reply("look_up", "ask_user")
    play.later(30)
    play.submit({play.calls[1].id: "yes"})
    play.later(40)
    play.claim(play.calls[0])
    play.later(500)
    play.finish(play.calls[0])
    play.later(20)
    play.start()
    play.later(100)
    assert spent(play) == [
        (Place.QUEUED, 10),
        (Place.MODEL, 200),
        (Place.PEOPLE, 30),
        (Place.TOOLS_WAITING, 40),
        (Place.TOOLS_RUNNING, 500),
        (Place.QUEUED, 20),
        (Place.MODEL, 100),
    ]
    play.reply(text="Read Dune.")
    play.later(9_000)
    assert spent(play)[-1] == (Place.MODEL, 100)


def test_a_run_without_a_log_was_nowhere() -> None:
    assert time_spent([], 1_000) == ()
