"""Of what was said: the memory of the thread."""

from itertools import pairwise

from orchestrator.conversation import NO_OUTPUT, Answered, build, grouped
from orchestrator.decide.steps import LOST
from orchestrator.invariants.committed import TURN_STATUSES, Committed
from orchestrator.records import (
    Entry,
    Guarded,
    Message,
    MessageStatus,
    Output,
    StepStatus,
    Summary,
)
from orchestrator.turn_record import places


def the_transcript_only_grows(c: Committed) -> str | None:
    """Otherwise the memory of the thread would change behind the model's back."""
    seqs = [entry.seq for entry in c.entries]
    is_ordered = all(a < b for a, b in pairwise([*seqs, c.after.thread.next_seq]))
    return None if is_ordered else f"{seqs}, next is {c.after.thread.next_seq}"


def each_settled_call_has_one_output(c: Committed) -> str | None:
    """Otherwise an answer would be lost, or the model be told twice."""
    outputs = [e for e in c.entries if isinstance(e, Output) and e.run_id == c.run.id]
    found = sorted((e.call_id, e.seq) for e in outputs)
    settled = sorted((x.id, x.output_seq) for x in c.after.calls if x.output_seq is not None)
    wanted = [] if c.run.is_rolled_back else settled
    return None if found == wanted else f"outputs {found}, ledger {wanted}"


def the_transcript_is_a_conversation(c: Committed) -> str | None:
    """Otherwise providers refuse the history, and with it every later run of the thread."""
    items = build("", grouped(_originals(c))).items
    answered = [x.call_id for x in items if isinstance(x, Answered) and x.text != NO_OUTPUT]
    settled = [call.id for call in c.after.calls if call.is_settled]
    mine = {call.id for call in c.after.calls}
    found = [call_id for call_id in answered if call_id in mine]
    wanted = [] if c.run.is_rolled_back else settled
    return None if found == wanted else f"answered {found}, settled {settled}"


def summaries_stand_for_whole_groups(c: Committed) -> str | None:
    """Otherwise a call would be shown without its output, or what is pinned be forgotten."""
    for summary in (e for e in c.entries if isinstance(e, Summary)):
        hidden = set(places(summary.replaces))
        for group in grouped(_originals(c)):
            gone = hidden.intersection(group.seqs)
            if gone and (group.is_pinned or len(gone) < len(group.seqs)):
                return f"{summary.seq} hides {gone} of {group.seqs}"
        if max(hidden, default=-1) >= summary.seq:
            return f"{summary.seq} stands for {summary.replaces}"
    return None


def a_message_is_open_while_it_is_written(c: Committed) -> str | None:
    """Otherwise a message would be in progress for ever, or two be written at once."""
    open_ids = [m.id for m in _said(c) if m.status is MessageStatus.IN_PROGRESS]
    open_steps = [step for step in c.after.steps if step.status is StepStatus.IN_PROGRESS]
    written = [step.message_id for step in open_steps if step.message_id]
    if open_ids == written and len(open_ids) <= int(c.run.status in TURN_STATUSES):
        return None
    return f"{c.run.status}: open {open_ids}, written {written}"


def partial_text_has_its_message(c: Committed) -> str | None:
    """Otherwise the beginning of one message would be taken for that of the next."""
    is_open = any(m.status is MessageStatus.IN_PROGRESS for m in _said(c))
    return None if is_open or not c.after.partial else f"{c.after.partial!r} of no message"


def void_messages_are_those_of_lost_turns(c: Committed) -> str | None:
    """Otherwise the model would forget what it said, or be shown what it said and took back."""
    void = [m.id for m in _said(c) if m.is_void]
    lost = [step.message_id for step in c.after.steps if step.last_error == LOST]
    wanted = [] if c.run.is_rolled_back else [message_id for message_id in lost if message_id]
    return None if void == wanted else f"void {void}, lost {wanted}"


def guardrails_speak_once_for_an_earlier_entry(c: Committed) -> str | None:
    """Otherwise a model would be shown what a guardrail took away, or never be guarded again."""
    guarded = [e for e in c.entries if isinstance(e, Guarded)]
    places = [e.of_seq for e in guarded]
    is_once = len(places) == len(set(places)) and all(e.of_seq < e.seq for e in guarded)
    thread = c.after.thread
    if is_once and thread.guarded_seq <= thread.next_seq:
        return None
    return f"guarded {places}, looked at {thread.guarded_seq} of {thread.next_seq}"


def _originals(c: Committed) -> list[Entry]:
    """What was said, without what summaries and guardrails made of it."""
    return [e for e in c.entries if not isinstance(e, Summary | Guarded)]


def _said(c: Committed) -> list[Message]:
    return [e for e in c.entries if isinstance(e, Message) and e.run_id == c.run.id]
