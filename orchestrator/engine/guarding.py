"""Where guardrails look in a turn: at what the model is to be shown, and at what it says.

What they make of the transcript is committed before the model is asked, so that no engine can show
it the original afterwards. What they make of the reply is stored in its place.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from orchestrator.commands import ApplyGuards
from orchestrator.commands import Stop as StopReason
from orchestrator.conversation import message_text
from orchestrator.engine.guards import Guards, Look
from orchestrator.engine.speech import Speech
from orchestrator.ids import mint
from orchestrator.llm.protocol import Reply, ReplyCall, TextDelta
from orchestrator.outputs import failure_text
from orchestrator.records import (
    Aggregate,
    CallRound,
    Entry,
    Firing,
    Guarded,
    GuardPoint,
    Message,
    Output,
    Run,
)
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store

WITHHELD: Final = "[This message was withheld.]"
"""What models are shown in the place of a message that was stopped."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A turn that may be asked, with what its model may be shown."""

    run: Run
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A reply as it may be stored. By the index of a call: ``asked`` has the model's own arguments
    where others are in their place, ``refusals`` what it is answered with instead of being made.
    """

    reply: Reply
    firings: tuple[Firing, ...] = ()
    asked: Mapping[int, str] = field(default_factory=dict)
    refusals: Mapping[int, str] = field(default_factory=dict)


async def clear(
    store: Store, guards: Guards, aggregate: Aggregate, entries: Sequence[Entry]
) -> Cleared | ApplyGuards:
    """Look at what no model was shown yet, and commit what is made of it; a command instead: a
    message was stopped, and the run ends with it.
    """
    run = aggregate.run
    assert run is not None  # noqa: S101 - of a turn
    command = await _look_at_entries(guards, aggregate, run, entries)
    if command is None:
        return Cleared(run, entries)
    if command.refusal is not None:
        return command
    after = (await change_run(store, RunRef(run.thread_id, run.id), command)).run
    assert after is not None  # noqa: S101
    return Cleared(after, await store.read_entries(run.thread_id) if command.guarded else entries)


async def review(guards: Guards, reply: Reply, speech: Speech) -> Reviewed:
    """Look at a reply before it is stored, and say the words that were held back for that. One that
    is stopped becomes a refusal, without its calls.
    """
    if not guards.are_at(GuardPoint.OUTPUT, GuardPoint.TOOL_INPUT):
        return Reviewed(reply)
    text = await _look_at_words(guards, reply.text, speech)
    refusal = await _look_at_words(guards, reply.refusal, speech)
    firings = (*text.firings, *refusal.firings)
    if stop := text.stop or refusal.stop:
        stopped = replace(reply, text=None, calls=(), refusal=stop, stop=StopReason.DONE, blocks=())
        return Reviewed(stopped, firings)
    if text.text and guards.are_at(GuardPoint.OUTPUT):
        speech.hear(TextDelta(text.text))
        await speech.end()
    reply = replace(reply, text=text.text or None, refusal=refusal.text or None)
    return await _review_calls(guards, reply, speech, firings)


async def _look_at_words(guards: Guards, words: str | None, speech: Speech) -> Look:
    return await guards.look(GuardPoint.OUTPUT, words, speech.message_id) if words else Look("")


async def _review_calls(
    guards: Guards, reply: Reply, speech: Speech, firings: tuple[Firing, ...]
) -> Reviewed:
    looks = await asyncio.gather(
        *(
            guards.look(
                GuardPoint.TOOL_INPUT, call.arguments, speech.call_id(index), tool=call.name
            )
            for index, call in enumerate(reply.calls)
        )
    )
    firings = (*firings, *(firing for look in looks for firing in look.firings))
    pairs = tuple(zip(reply.calls, looks, strict=True))
    return Reviewed(
        replace(
            reply,
            calls=tuple(replace(call, arguments=look.text) for call, look in pairs),
            blocks=() if firings else reply.blocks,  # they hold what the model itself wrote
        ),
        firings,
        {i: call.arguments for i, (call, look) in enumerate(pairs) if _is_changed(call, look)},
        {i: _error(look, look.stop) for i, look in enumerate(looks) if look.stop is not None},
    )


def _is_changed(call: ReplyCall, look: Look) -> bool:
    return call.arguments != look.text


async def _look_at_entries(
    guards: Guards, aggregate: Aggregate, run: Run, entries: Sequence[Entry]
) -> ApplyGuards | None:
    """``None``: there is nothing to look at."""
    if not guards.are_at(GuardPoint.INPUT, GuardPoint.TOOL_OUTPUT):
        return None
    thread = aggregate.thread
    spoken_for = {entry.of_seq for entry in entries if isinstance(entry, Guarded)}
    tools = {x.call_id: x.name for e in entries if isinstance(e, CallRound) for x in e.calls}
    fresh = [
        entry
        for entry in entries
        if entry.seq >= thread.guarded_seq
        and entry.seq not in spoken_for
        and _is_looked_at(guards, entry)
    ]
    if not fresh:
        return None
    looks = await asyncio.gather(*(_look_at(guards, entry, tools) for entry in fresh))
    pairs = tuple(zip(fresh, looks, strict=True))
    answered_seq = max((entry.seq for entry in entries if _is_of_run(entry)), default=-1)
    stops = [
        look.stop
        for entry, look in pairs
        if isinstance(entry, Message) and look.stop and entry.seq > answered_seq
    ]
    return ApplyGuards(
        generation=run.generation,
        until_seq=thread.next_seq,
        guarded=tuple(_guarded(run, entry, look) for entry, look in pairs if look.firings),
        firings=tuple(firing for look in looks for firing in look.firings),
        message_id=mint("msg"),
        step_id=mint("step"),
        refusal=stops[-1] if stops else None,
    )


def _is_of_run(entry: Entry) -> bool:
    """Whether a model has said this: what was stopped before it is withheld, not answered again."""
    return isinstance(entry, CallRound) or (isinstance(entry, Message) and entry.run_id is not None)


def _is_looked_at(guards: Guards, entry: Entry) -> bool:
    """Clients may add messages in the assistant's name, too; what runs wrote was looked at then."""
    if isinstance(entry, Message):
        return entry.run_id is None and guards.are_at(GuardPoint.INPUT)
    return isinstance(entry, Output) and guards.are_at(GuardPoint.TOOL_OUTPUT)


async def _look_at(guards: Guards, entry: Entry, tools: Mapping[str, str]) -> Look:
    if isinstance(entry, Message):
        return await guards.look(GuardPoint.INPUT, message_text(entry.content), entry.id)
    assert isinstance(entry, Output)  # noqa: S101 - see _is_looked_at
    tool = tools.get(entry.call_id)
    return await guards.look(GuardPoint.TOOL_OUTPUT, entry.text, entry.call_id, tool)


def _guarded(run: Run, entry: Entry, look: Look) -> Guarded:
    text = look.text
    if look.stop is not None:
        text = WITHHELD if isinstance(entry, Message) else _error(look, look.stop)
    is_stopped = look.stop is not None
    return Guarded(seq=0, run_id=run.id, of_seq=entry.seq, text=text, is_stopped=is_stopped)


def _error(look: Look, stop: str) -> str:
    """An error that the model can read; it names the rule that has stopped this."""
    return failure_text("guardrail", f"{look.firings[-1].rule}: {stop}")
