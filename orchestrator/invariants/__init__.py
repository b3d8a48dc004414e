"""What must hold of every run after every step, as one named list.

An invariant looks at one committed step and says what is wrong with it, or nothing; its docstring
says what users would lose without it. Random and exhaustive command sequences are held against the
same list, and so may be whatever a store really holds.
"""

from typing import Final

from orchestrator.invariants import calls, events, runs, times, transcript
from orchestrator.invariants.committed import Committed, Invariant

__all__ = ["INVARIANTS", "Committed", "Invariant", "violations"]

INVARIANTS: Final[tuple[Invariant, ...]] = (
    runs.status_follows_the_table,
    runs.final_runs_never_change,
    runs.an_end_has_its_time_and_reason,
    runs.a_final_run_leaves_nothing_open,
    runs.the_lock_is_the_active_run,
    runs.a_free_thread_is_waited_for_by_nobody,
    runs.an_engine_has_the_turn_or_nobody,
    runs.open_calls_mean_requires_action,
    runs.clients_wait_only_for_themselves,
    runs.usage_is_that_of_the_steps,
    runs.what_is_counted_is_what_the_run_used,
    runs.a_run_belongs_to_the_tenant_of_its_thread,
    runs.a_turn_that_ended_is_known,
    calls.steps_are_in_order_and_end_once,
    calls.steps_show_what_was_written,
    calls.settled_calls_never_change,
    calls.tools_run_no_more_than_they_may,
    calls.nothing_starts_before_it_is_approved,
    calls.no_worker_answers_for_the_client,
    calls.late_results_are_few,
    calls.the_whole_of_a_cut_output_is_kept,
    transcript.the_transcript_only_grows,
    transcript.each_settled_call_has_one_output,
    transcript.the_transcript_is_a_conversation,
    transcript.summaries_stand_for_whole_groups,
    transcript.a_message_is_open_while_it_is_written,
    transcript.partial_text_has_its_message,
    transcript.void_messages_are_those_of_lost_turns,
    transcript.guardrails_speak_once_for_an_earlier_entry,
    times.counters_never_fall,
    times.each_holder_has_its_own_generation,
    times.times_never_go_backwards,
    times.the_deadline_never_moves,
    times.each_wait_has_its_timer,
    events.nothing_is_asked_without_a_change,
    events.the_log_ends_with_the_run,
    events.a_log_is_retired_when_it_is_complete,
    events.the_last_event_tells_how_it_is,
    events.readers_are_told_of_one_step_at_a_time,
    events.what_is_told_of_a_message_is_kept_in_it,
    events.a_due_turn_is_queued_once,
    events.a_dispatched_call_is_sent_once,
    events.a_call_that_is_given_up_is_stopped,
)


def violations(committed: Committed) -> tuple[str, ...]:
    """What is wrong with this step, one sentence per broken invariant; empty when all hold."""
    found = ((invariant.__name__, invariant(committed)) for invariant in INVARIANTS)
    return tuple(f"{name}: {complaint}" for name, complaint in found if complaint)
