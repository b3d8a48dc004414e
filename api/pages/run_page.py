"""The page of one run: all that explains it."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from starlette.responses import Response

from api.explained import explained, ref_of
from api.pages.rendering import page
from api.pages.time_bar import draw
from api.run_lines import run_line
from orchestrator.conversation import message_text
from orchestrator.records import CallRound, Entry, Message, MessageStatus, Output, Run, Summary
from orchestrator.records.guards import Guarded
from orchestrator.store import Store
from orchestrator.story.words import as_call, counted

MAX_ENTRIES: Final = 200
"""Of a longer transcript the page shows the end."""


@dataclass(frozen=True, slots=True)
class Said:
    """An entry of the transcript for people. ``who``: user, assistant, calls, output, summary or
    guardrail.
    """

    seq: int
    who: str
    text: str
    note: str
    is_of_run: bool


async def run_page(store: Store, run_id: str, *, is_live: bool) -> Response:
    """The page of the run. While the run is active, it refreshes itself."""
    known = await explained(store, run_id)
    view, ref = known.view, ref_of(known.view)
    run = view.run
    entries, loaded = await asyncio.gather(
        store.read_entries(ref.thread_id),
        store.load(ref.thread_id, ref.run_id),
    )
    turns, price = known.turns, view.spec.price
    outputs = {entry.call_id: entry.text for entry in entries if isinstance(entry, Output)}
    end_ms = run.ended_ms or view.now_ms
    return page(
        "run.html",
        run=run,
        spec=view.spec,
        line=run_line(view),
        why=known.why,
        end_ms=end_ms,
        left_ms=run.deadline_ms - view.now_ms,
        drawing=draw(run.created_ms, end_ms, known.time_spent, turns, view.calls),
        turns=[(turn, price.of(turn.spent) if price and turn.spent else None) for turn in turns],
        calls=[(call, outputs.get(call.id)) for call in view.calls],
        timeline=known.timeline,
        transcript=_transcript(entries[-MAX_ENTRIES:], run, loaded.aggregate.partial),
        left_out=max(len(entries) - MAX_ENTRIES, 0),
        is_live=is_live and not run.is_final,
        is_active=not run.is_final,
    )


def _transcript(entries: Sequence[Entry], run: Run, partial: str) -> Iterator[Said]:
    """What was said, in order. A message that is being written is as far as it has come."""
    names = {
        call.call_id: as_call(call.name, call.arguments)
        for entry in entries
        if isinstance(entry, CallRound)
        for call in entry.calls
    }
    for entry in entries:
        is_of_run = getattr(entry, "run_id", None) == run.id
        match entry:
            case Message():
                is_open = is_of_run and entry.status is MessageStatus.IN_PROGRESS
                text = partial if is_open else message_text(entry.content)
                yield Said(entry.seq, entry.role, text, _note(entry), is_of_run)
            case CallRound():
                text = "\n".join(names[call.call_id] for call in entry.calls)
                yield Said(entry.seq, "calls", text, "", is_of_run)
            case Output():
                name = names.get(entry.call_id, entry.call_id)
                yield Said(entry.seq, "output", entry.text, name, is_of_run)
            case Summary():
                yield Said(entry.seq, "summary", entry.text, "of what is older", is_of_run)
            case Guarded():
                yield Said(entry.seq, "guardrail", entry.text, f"for {entry.of_seq}", is_of_run)
            case _:
                assert_never(entry)


def _note(message: Message) -> str:
    """What is unusual about a message."""
    pictures = sum(part.get("type") not in {"text", "refusal"} for part in message.content)
    notes = [
        message.status.replace("_", " ") if message.status is not MessageStatus.COMPLETED else "",
        f"({message.incomplete_reason})" if message.incomplete_reason else "",
        "played again" if message.is_void else "",
        f"and {counted(pictures, 'picture')}" if pictures else "",
    ]
    return " ".join(note for note in notes if note)
