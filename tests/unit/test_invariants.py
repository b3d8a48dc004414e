"""Each invariant can be broken, and says so: a step that is right is made wrong in one place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.commands import IfBusy
from orchestrator.decisions import (
    CountUsage,
    Event,
    EventType,
    QueueTurn,
    RetireLog,
    SendCall,
    TimerKey,
    TimerKind,
)
from orchestrator.invariants import (
    INVARIANTS,
    Committed,
    Invariant,
    calls,
    events,
    runs,
    times,
    transcript,
    violations,
)
from orchestrator.records import (
    CallRound,
    CallState,
    Executor,
    LateResult,
    MessageStatus,
    Output,
    Price,
    StepStatus,
    Tally,
    Usage,
    Waiting,
)
from orchestrator.states import RunStatus
from tests.unit.play import Play, a_round, a_run, a_turn

Breaking = Callable[[Committed], Committed]

OPEN = MessageStatus.IN_PROGRESS


def step(play: Play, verb: Callable[[], object]) -> Committed:
    """What the verb committed."""
    before = play.world.load(play.run_id)
    verb()
    run_id = play.run_id
    timers = {key: at_ms for (owner, key), at_ms in play.world.timers.items() if owner == run_id}
    return Committed(before, play.decision, play.world.entries, timers)


def a_creation() -> Committed:
    return replace(step(a_run(), lambda: None), before=None)


def a_start() -> Committed:
    play = a_run()
    return step(play, play.start)


def a_reply() -> Committed:
    play = a_turn()
    usage = Usage(prompt_tokens=10, completion_tokens=1)
    return step(play, lambda: play.reply("look_up", "ask_user", text="One moment.", usage=usage))


def a_priced_reply() -> Committed:
    play = a_turn(price=Price(prompt=2, completion=9))
    play.reply("look_up", usage=Usage(prompt_tokens=10))
    play.finish(play.claim(play.calls[0]))
    play.start()
    return step(play, lambda: play.reply("look_up", usage=Usage(prompt_tokens=10)))


def an_opening() -> Committed:
    play = a_turn()
    return step(play, play.speak)


def a_lost_turn() -> Committed:
    play = a_turn()
    play.speak("Let me")
    return step(play, play.requeue)


def a_cut_answer() -> Committed:
    play = a_turn()
    play.speak("Let me")
    play.cancel()
    return step(play, play.confirm_cancel)


def a_claim() -> Committed:
    play = a_round("look_up", "ask_user")
    return step(play, lambda: play.claim(play.calls[0]))


def a_clients_call() -> Committed:
    play = a_turn(executor="client")
    return step(play, lambda: play.reply("look_up"))


def a_result() -> Committed:
    play = a_round("look_up", "ask_user")
    call = play.claim(play.calls[0])
    return step(play, lambda: play.finish(call))


def a_refusal() -> Committed:
    play = a_turn()
    play.speak("Well, ")
    return step(play, lambda: play.reply(refusal="no."))


def a_second_result() -> Committed:
    play = a_round("look_up", "ask_user")
    play.finish(play.claim(play.calls[0]))
    return step(play, lambda: play.submit({play.calls[1].id: "yes"}))


def a_cancel() -> Committed:
    play = a_round("look_up", "ask_user")
    return step(play, play.cancel)


def an_approval() -> Committed:
    play = a_round("refund")
    return step(play, lambda: play.approve(play.calls[0]))


def a_question_before_an_approval() -> Committed:
    play = a_round("refund", "ask_user")
    return step(play, lambda: play.submit({play.calls[1].id: "yes"}))


def a_passing_on() -> Committed:
    play = a_round("ask_user")
    play.text(IfBusy.ENQUEUE, "And then?")
    return step(play, play.cancel)


def a_guarding() -> Committed:
    play = a_turn()
    return step(play, lambda: play.guard(0))


def a_summary() -> Committed:
    play = a_turn()
    for _ in range(2):
        (call,) = play.reply("look_up")
        play.finish(play.claim(call))
        play.start()
    return step(play, lambda: play.compact(usage=Usage(prompt_tokens=5)))


def a_rollback() -> Committed:
    play = a_round("ask_user")
    return step(play, lambda: play.text(IfBusy.ROLLBACK, "No, wait."))


def a_late_result() -> Committed:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.cancel()
    return step(play, lambda: play.finish(call))


def nothing() -> Committed:
    play = a_run()
    same = step(play, play.expire)
    return replace(same, before=same.after)


STEPS = (
    a_creation,
    a_start,
    a_reply,
    a_priced_reply,
    an_opening,
    a_lost_turn,
    a_cut_answer,
    a_claim,
    a_result,
    a_second_result,
    a_cancel,
    an_approval,
    a_question_before_an_approval,
    a_passing_on,
    a_guarding,
    a_summary,
    a_rollback,
    a_late_result,
    nothing,
)


def after(c: Committed, **changes: Any) -> Committed:
    return replace(c, decision=replace(c.decision, aggregate=c.after.but(**changes)))


def run(**changes: Any) -> Breaking:
    return lambda c: after(c, run=c.run.but(**changes))


def thread(**changes: Any) -> Breaking:
    return lambda c: after(c, thread=c.after.thread.but(**changes))


def first_call(**changes: Any) -> Breaking:
    return lambda c: after(c, calls=(c.after.calls[0].but(**changes), *c.after.calls[1:]))


def last_step(**changes: Any) -> Breaking:
    return lambda c: after(c, steps=(*c.after.steps[:-1], c.after.steps[-1].but(**changes)))


def entries(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Breaking:
    return lambda c: replace(c, entries=change(c.entries))


def last_message(**changes: Any) -> Breaking:
    return entries(lambda all_: (*all_[:-1], all_[-1].but(**changes)))


def timers(change: Callable[[dict[TimerKey, int]], dict[TimerKey, int]]) -> Breaking:
    return lambda c: replace(c, timers=change(dict(c.timers)))


def log(change: Callable[[tuple[Event, ...]], tuple[Event, ...]]) -> Breaking:
    return lambda c: replace(c, decision=replace(c.decision, events=change(c.decision.events)))


def effects(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Breaking:
    return lambda c: replace(c, decision=replace(c.decision, effects=change(c.decision.effects)))


def counted(**changes: int) -> Breaking:
    """The turn was counted with these amounts."""

    def change(asked: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(one, tally=one.tally.but(**changes)) if isinstance(one, CountUsage) else one
            for one in asked
        )

    return effects(change)


def without(kind: EventType) -> Breaking:
    return log(lambda told: tuple(event for event in told if event.type != kind))


def late(count: int) -> tuple[LateResult, ...]:
    return (LateResult(at_ms=0, generation=1, text=""),) * count


def pinned(all_: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        entry.but(calls=tuple(call.but(is_pinned=True) for call in entry.calls))
        if isinstance(entry, CallRound)
        else entry
        for entry in all_
    )


def other_words(c: Committed) -> Committed:
    def other(event: Event) -> Event:
        told = event.message
        return event.but(message=told.but(content=told.content[:1])) if told else event

    return log(lambda told: tuple(map(other, told)))(c)


BREAKS: list[tuple[Invariant, Callable[[], Committed], Breaking]] = [
    (runs.status_follows_the_table, a_start, run(status=RunStatus.COMPLETED)),
    (runs.status_follows_the_table, a_start, without(EventType.RUN_IN_PROGRESS)),
    (runs.status_follows_the_table, a_creation, log(lambda _: ())),
    (
        runs.status_follows_the_table,
        a_second_result,
        lambda c: replace(c, before=c.after.but(run=c.run.but(status=RunStatus.CANCELLED))),
    ),
    (runs.final_runs_never_change, a_late_result, run(turns=7)),
    (runs.an_end_has_its_time_and_reason, a_cancel, run(cancelled_ms=None)),
    (runs.an_end_has_its_time_and_reason, a_cancel, run(completed_ms=1)),
    (runs.an_end_has_its_time_and_reason, a_start, run(failed_ms=1)),
    (runs.a_final_run_leaves_nothing_open, a_cancel, first_call(output_seq=None)),
    (runs.a_final_run_leaves_nothing_open, a_cancel, last_step(status=StepStatus.IN_PROGRESS)),
    (runs.the_lock_is_the_active_run, a_cancel, thread(active_run_id="run_1")),
    (runs.the_lock_is_the_active_run, a_start, thread(active_run_id=None)),
    (runs.the_lock_is_the_active_run, a_start, thread(waiting=(Waiting(run_id="run_1"),))),
    (
        runs.the_lock_is_the_active_run,
        a_start,
        thread(active_run_id=None, waiting=(Waiting(run_id="run_1"),)),
    ),
    (runs.a_free_thread_is_waited_for_by_nobody, a_cancel, thread(waiting=(Waiting(),))),
    (runs.a_free_thread_is_waited_for_by_nobody, a_start, thread(is_deleted=True)),
    (runs.an_engine_has_the_turn_or_nobody, a_start, run(engine=None)),
    (runs.an_engine_has_the_turn_or_nobody, a_cancel, run(engine="engine_1")),
    (runs.open_calls_mean_requires_action, a_second_result, run(status=RunStatus.REQUIRES_ACTION)),
    (runs.open_calls_mean_requires_action, a_reply, run(status=RunStatus.QUEUED)),
    (runs.clients_wait_only_for_themselves, a_result, run(status=RunStatus.QUEUED)),
    (
        runs.clients_wait_only_for_themselves,
        a_question_before_an_approval,
        run(status=RunStatus.QUEUED),
    ),
    (runs.usage_is_that_of_the_steps, a_reply, run(usage=Usage(prompt_tokens=11))),
    (runs.usage_is_that_of_the_steps, a_cancel, last_step(usage=Usage(prompt_tokens=1))),
    (runs.a_run_belongs_to_the_tenant_of_its_thread, a_reply, thread(tenant="shop")),
    (runs.what_is_counted_is_what_the_run_used, a_reply, run(usage=Usage(prompt_tokens=11))),
    (runs.what_is_counted_is_what_the_run_used, a_reply, thread(spent=Tally(turns=1))),
    (runs.what_is_counted_is_what_the_run_used, a_reply, counted(prompt_tokens=0)),
    (runs.what_is_counted_is_what_the_run_used, a_reply, counted(cost_micros=1)),
    (
        runs.what_is_counted_is_what_the_run_used,
        a_priced_reply,
        counted(cost_micros=21),
    ),
    (runs.usage_is_that_of_the_steps, a_summary, run(summary_usage=None)),
    (runs.a_turn_that_ended_is_known, a_reply, effects(lambda _: ())),
    (runs.a_turn_that_ended_is_known, a_reply, effects(lambda asked: asked * 2)),
    (
        runs.a_turn_that_ended_is_known,
        a_reply,
        lambda c: replace(
            c, before=c.before and c.before.but(run=c.run.but(turns=0, generation=7))
        ),
    ),
    (calls.steps_are_in_order_and_end_once, a_reply, run(next_step=3)),
    (calls.steps_are_in_order_and_end_once, a_cancel, last_step(completed_ms=1)),
    (calls.steps_are_in_order_and_end_once, a_reply, last_step(status=StepStatus.FAILED)),
    (calls.steps_show_what_was_written, a_reply, last_step(call_ids=("call_2", "call_1"))),
    (calls.steps_show_what_was_written, a_reply, entries(lambda all_: all_[:-1])),
    (calls.steps_show_what_was_written, a_reply, entries(lambda all_: (all_[0], *all_[2:]))),
    (calls.steps_show_what_was_written, a_cancel, run(rolls_back=True)),
    (calls.settled_calls_never_change, a_second_result, first_call(state=CallState.FAILED)),
    (calls.settled_calls_never_change, a_second_result, lambda c: after(c, calls=())),
    (calls.tools_run_no_more_than_they_may, a_claim, first_call(attempts=4, generation=4)),
    (calls.tools_run_no_more_than_they_may, a_claim, first_call(generation=2)),
    (calls.tools_run_no_more_than_they_may, a_claim, first_call(answered=2)),
    (
        calls.tools_run_no_more_than_they_may,
        a_claim,
        first_call(side_effects="once", attempts=2, generation=2),
    ),
    (calls.tools_run_no_more_than_they_may, a_claim, first_call(executor="client")),
    (calls.nothing_starts_before_it_is_approved, an_approval, first_call(approved_ms=None)),
    (calls.no_worker_answers_for_the_client, a_clients_call, first_call(executor=Executor.WORKER)),
    (calls.late_results_are_few, a_claim, first_call(late=late(6))),
    (calls.the_whole_of_a_cut_output_is_kept, a_result, first_call(has_full_output=True)),
    (transcript.the_transcript_only_grows, a_reply, entries(lambda all_: all_[::-1])),
    (transcript.the_transcript_only_grows, a_reply, thread(next_seq=1)),
    (transcript.each_settled_call_has_one_output, a_second_result, entries(lambda all_: all_[:-1])),
    (
        transcript.each_settled_call_has_one_output,
        a_second_result,
        entries(lambda all_: (*all_, all_[-1].but(seq=9))),
    ),
    (
        transcript.the_transcript_is_a_conversation,
        a_second_result,
        entries(lambda all_: tuple(e for e in all_ if not isinstance(e, Output))),
    ),
    (transcript.summaries_stand_for_whole_groups, a_summary, last_message(replaces=((0, 1),))),
    (transcript.summaries_stand_for_whole_groups, a_summary, last_message(replaces=((0, 5),))),
    (transcript.summaries_stand_for_whole_groups, a_summary, entries(pinned)),
    (
        transcript.a_message_is_open_while_it_is_written,
        an_opening,
        last_message(status="completed"),
    ),
    (transcript.a_message_is_open_while_it_is_written, a_cut_answer, last_message(status=OPEN)),
    (transcript.a_message_is_open_while_it_is_written, an_opening, run(status=RunStatus.QUEUED)),
    (
        transcript.a_message_is_open_while_it_is_written,
        an_opening,
        last_step(status=StepStatus.FAILED),
    ),
    (transcript.partial_text_has_its_message, a_cut_answer, lambda c: after(c, partial="Let me")),
    (transcript.void_messages_are_those_of_lost_turns, a_lost_turn, last_message(is_void=False)),
    (transcript.void_messages_are_those_of_lost_turns, a_cut_answer, last_message(is_void=True)),
    (
        transcript.guardrails_speak_once_for_an_earlier_entry,
        a_guarding,
        entries(lambda all_: (*all_, all_[-1].but(seq=9))),
    ),
    (transcript.guardrails_speak_once_for_an_earlier_entry, a_guarding, last_message(of_seq=1)),
    (transcript.guardrails_speak_once_for_an_earlier_entry, a_start, thread(guarded_seq=2)),
    (times.counters_never_fall, a_late_result, run(generation=0)),
    (times.counters_never_fall, a_second_result, lambda c: after(c, calls=())),
    (times.each_holder_has_its_own_generation, a_start, run(generation=0)),
    (times.each_holder_has_its_own_generation, a_claim, first_call(generation=0)),
    (times.times_never_go_backwards, a_start, run(updated_ms=999)),
    (times.times_never_go_backwards, a_cancel, run(cancelled_ms=1)),
    (times.times_never_go_backwards, a_claim, first_call(started_ms=1)),
    (times.the_deadline_never_moves, a_start, run(deadline_ms=1)),
    (times.each_wait_has_its_timer, a_start, timers(lambda _: {})),
    (times.each_wait_has_its_timer, a_claim, timers(lambda _: {TimerKey(TimerKind.DEADLINE): 1})),
    (times.each_wait_has_its_timer, a_cancel, timers(lambda _: {TimerKey(TimerKind.DEADLINE): 1})),
    (times.each_wait_has_its_timer, a_start, timers(lambda all_: dict.fromkeys(all_, 10**9))),
    (events.nothing_is_asked_without_a_change, nothing, effects(lambda _: (QueueTurn(),))),
    (events.the_log_ends_with_the_run, a_cancel, log(lambda told: told * 2)),
    (events.the_log_ends_with_the_run, a_cancel, log(lambda told: told[::-1])),
    (events.the_log_ends_with_the_run, a_cancel, without(EventType.RUN_CANCELLED)),
    (
        events.the_log_ends_with_the_run,
        a_late_result,
        log(lambda told: (told[0].but(type=EventType.RUN_CANCELLED),)),
    ),
    (events.a_log_is_retired_when_it_is_complete, a_cancel, effects(lambda _: ())),
    (events.a_log_is_retired_when_it_is_complete, a_late_result, effects(lambda _: ())),
    (events.a_log_is_retired_when_it_is_complete, a_start, effects(lambda _: (RetireLog(),))),
    (events.the_last_event_tells_how_it_is, a_reply, log(lambda told: told[:-1])),
    (events.readers_are_told_of_one_step_at_a_time, a_reply, without(EventType.STEP_COMPLETED)),
    (events.readers_are_told_of_one_step_at_a_time, a_reply, without(EventType.STEP_CREATED)),
    (events.what_is_told_of_a_message_is_kept_in_it, a_refusal, other_words),
    (events.a_due_turn_is_queued_once, a_second_result, effects(lambda _: ())),
    (events.a_due_turn_is_queued_once, a_passing_on, effects(lambda _: ())),
    (events.a_due_turn_is_queued_once, a_claim, effects(lambda asked: (*asked, QueueTurn()))),
    (events.a_dispatched_call_is_sent_once, a_reply, effects(lambda asked: asked[:-1])),
    (events.a_dispatched_call_is_sent_once, a_reply, effects(lambda asked: (*asked, asked[-1]))),
    (
        events.a_dispatched_call_is_sent_once,
        a_claim,
        effects(lambda asked: (*asked, SendCall("call_1", "tools", 1, is_repeat=True))),
    ),
    (events.a_call_that_is_given_up_is_stopped, a_cancel, effects(lambda _: ())),
]


@pytest.mark.parametrize("make", STEPS)
def test_all_invariants_hold_of_what_the_core_decides(make: Callable[[], Committed]) -> None:
    assert violations(make()) == ()


@pytest.mark.parametrize(
    ("invariant", "make", "breaking"), BREAKS, ids=[name.__name__ for name, *_ in BREAKS]
)
def test_a_broken_step_is_told_by_its_invariant(
    invariant: Invariant, make: Callable[[], Committed], breaking: Breaking
) -> None:
    broken = breaking(make())
    assert invariant(broken)
    assert invariant.__name__ in {complaint.split(":")[0] for complaint in violations(broken)}


def test_every_invariant_has_been_seen_to_fail() -> None:
    assert {invariant for invariant, *_ in BREAKS} == set(INVARIANTS)


def test_every_invariant_says_what_users_would_lose_without_it() -> None:
    for invariant in INVARIANTS:
        assert (invariant.__doc__ or "").startswith("Otherwise "), invariant.__name__
