"""What went wrong in other systems of this kind, played against this core.

Each test names the public report it comes from. Where a report is about more than rules (stores,
queues, processes), other rooms play the rest of it.
"""

from collections.abc import Callable
from itertools import permutations

import pytest

from orchestrator.commands import Outcome, ProposedCall, Stop
from orchestrator.decisions import EventType, QueueTurn, SendCall
from orchestrator.errors import CallNotOpen, NotNow, StaleTurn
from orchestrator.records import CallState
from orchestrator.states import FINAL, RunStatus
from tests.unit.play import (
    ENDED,
    TTL_MS,
    Play,
    a_cancelled_turn,
    a_round,
    a_run,
    a_turn,
)

RACERS = ("cancel", "let go", "answer", "break", "expire")


def ends_told(play: Play) -> list[str]:
    """The final run events of the whole log."""
    ends = {EventType(f"run.{status}") for status in FINAL}
    return [event.type for event in play.world.log if event.type in ends]


def pass_deadline(play: Play) -> None:
    """Nobody came in time."""
    play.later(TTL_MS)
    play.expire()


def attempt(play: Play, verb: str) -> None:
    """One of the things that race for the end of a run; who comes too late is refused."""
    verbs: dict[str, Callable[[], object]] = {
        "cancel": play.cancel,
        "let go": play.confirm_cancel,
        "answer": lambda: play.reply(text="Read Dune."),
        "cut": lambda: play.reply(text="It was a", stop=Stop.LENGTH),
        "break": play.fail_turn,
        "expire": lambda: pass_deadline(play),
    }
    try:
        verbs[verb]()
    except NotNow:
        return


@pytest.mark.parametrize("ending", ["answer", "cut", "break"])
@pytest.mark.parametrize("is_confirmed_first", [True, False])
def test_a_late_ending_does_not_overwrite_a_cancel(ending: str, is_confirmed_first: bool) -> None:
    """Abilityai/trinity #681, SamSaffron/term-llm #790."""
    play = a_cancelled_turn()
    for verb in ["let go", ending] if is_confirmed_first else [ending, "let go"]:
        attempt(play, verb)
    if is_confirmed_first or ending == "break":  # a failure is no answer: the cancel stands
        assert play.status is RunStatus.CANCELLED
        assert [message.role for message in play.messages] == ["user"]
    else:
        assert play.run.cancelled_ms is None
    assert len(ends_told(play)) == 1


def test_running_is_never_written_over_cancelled() -> None:
    """apecloud/ApeRAG #1631."""
    play = a_run()
    play.cancel()
    with pytest.raises(StaleTurn):
        play.start()
    assert (play.status, play.run.started_ms) == (RunStatus.CANCELLED, None)


@pytest.mark.parametrize("is_claimed", [False, True])
def test_after_a_cancel_no_model_call_and_no_tool_begins(is_claimed: bool) -> None:
    """SamSaffron/term-llm #918."""
    play = a_round("look_up")
    call = play.claim(play.calls[0]) if is_claimed else play.calls[0]
    play.cancel()
    with pytest.raises(CallNotOpen):
        play.claim(call)
    with pytest.raises(StaleTurn):
        play.start()
    play.finish(call)
    assert play.calls[0].state is CallState.CANCELLED
    assert play.effects(QueueTurn) == []


@pytest.mark.parametrize("order", list(permutations(RACERS)))
def test_whoever_wins_the_end_is_told_once(order: tuple[str, ...]) -> None:
    """supernovae-st/nika #1350."""
    play = a_turn()
    for verb in order:
        attempt(play, verb)
    assert len(ends_told(play)) == 1
    assert ends_told(play) == [f"run.{play.status}"]


def test_a_failed_run_is_not_run_again() -> None:
    """activeagents/activeagent #377."""
    play = ENDED["failed"]()
    run = play.run
    for verb in (play.start, play.requeue, play.fail_turn):
        with pytest.raises(StaleTurn):
            verb()
    assert play.run == run


def test_a_model_that_repeats_its_ids_gets_each_answer_to_its_own_call() -> None:
    """HKUDS/nanobot #4473."""
    play = a_turn()
    first, second, third = play.reply(
        ProposedCall("call_1", "ask_user", '{"q": 1}', provider_id="call_0"),
        ProposedCall("call_2", "ask_user", '{"q": 2}', provider_id="call_0"),
        ProposedCall("call_3", "ask_user", '{"q": 3}', provider_id=""),
    )
    assert len({first.id, second.id, third.id}) == 3
    assert [call.provider_id for call in play.calls] == ["call_0", "call_0", ""]
    play.submit({first.id: "1", second.id: "2", third.id: "3"})
    assert play.outputs == {first.id: "1", second.id: "2", third.id: "3"}


@pytest.mark.parametrize("arguments", [("a", "b"), ("a", "a")])
def test_two_calls_of_one_tool_are_two_calls(arguments: tuple[str, str]) -> None:
    """generative-computing/mellea #1431."""
    play = a_turn()
    first, second = play.reply(
        *(ProposedCall(play.mint("call"), "look_up", text) for text in arguments)
    )
    assert len(play.effects(SendCall)) == 2
    play.finish(play.claim(second), "second")
    play.finish(play.claim(first), "first")
    assert play.outputs == {first.id: "first", second.id: "second"}
    assert tuple(call.arguments for call in play.calls) == arguments


def test_a_model_that_insists_on_an_unknown_tool_comes_to_an_end() -> None:
    """microsoft/semantic-kernel #12177."""
    play = a_run(max_turns=5)
    while not play.run.is_final:
        play.start()
        play.reply("missing")
        assert play.public is not RunStatus.REQUIRES_ACTION
    assert (play.status, play.run.turns) == (RunStatus.FAILED, 5)


def test_a_client_that_only_polls_sees_the_same_calls_until_the_run_expires() -> None:
    """Azure/ai-foundry-workshop #82."""
    play = a_round("ask_user", "look_up")
    waiting = play.world.load(play.run_id).client_calls()
    play.finish(play.claim(play.calls[1]))
    for _ in range(5):
        play.later(TTL_MS // 6)
        play.expire()
        assert play.public is RunStatus.REQUIRES_ACTION
        assert play.world.load(play.run_id).client_calls() == waiting
    pass_deadline(play)
    assert play.run.status == "expired"


def test_a_job_that_is_delivered_again_does_not_run_again() -> None:
    """rq/rq #1521, #1228."""
    play = a_round("charge", "ask_user")
    call = play.claim(play.calls[0])
    with pytest.raises(CallNotOpen):
        play.claim(call, "worker_2")
    play.finish(call)
    with pytest.raises(CallNotOpen):
        play.claim(call, "worker_2")
    assert (play.calls[0].attempts, play.calls[0].worker) == (1, "worker_1")


def test_a_call_that_is_sent_again_keeps_nothing_of_its_last_attempt() -> None:
    """rq/rq #1854."""
    play = a_round("update")
    call = play.lose(play.claim(play.calls[0]))
    assert (call.started_ms, call.deadline_ms, call.worker) == (None, None, None)
    play.later(5_000)
    call = play.claim(play.send_again(call), "worker_2")
    assert (call.started_ms, call.worker) == (play.now_ms, "worker_2")


def test_a_tool_that_kills_every_worker_is_given_up() -> None:
    """OasisLMF/OasisPlatform #975, sidekiq/sidekiq #3400."""
    play = a_round("look_up")
    starts = 0
    while play.status is RunStatus.REQUIRES_ACTION:
        call = play.lose(play.claim(play.calls[0]))
        starts += 1
        if call.state is CallState.RETRYING:
            play.send_again(call)
    assert (starts, play.calls[0].state) == (3, CallState.FAILED)


def test_eight_calls_that_end_at_once_lead_to_one_next_turn() -> None:
    """rq/rq #739, #1615."""
    play = a_round(*["look_up"] * 8)
    ends = {2: Outcome.FAILED, 5: Outcome.TIMED_OUT}
    claimed = [play.claim(call) for call in play.calls]
    turns = 0
    for place, call in enumerate(claimed):
        play.finish(call, outcome=ends.get(place, Outcome.SUCCEEDED))
        turns += len(play.effects(QueueTurn))
    for call in claimed:
        play.finish(call)
        turns += len(play.effects(QueueTurn))
    assert (turns, play.status) == (1, RunStatus.QUEUED)


@pytest.mark.parametrize("status", ENDED)
def test_a_job_of_a_run_that_is_over_does_nothing(status: str) -> None:
    """rq/rq #2160."""
    play = ENDED[status]()
    world = play.world
    for call in play.calls:
        with pytest.raises(CallNotOpen):
            play.claim(call)
    assert play.world == world
