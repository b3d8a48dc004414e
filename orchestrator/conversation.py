"""From the transcript to what a model is shown. Pure; the transcript is the only memory.

A turn of the model that spoke and asked for tools is two entries (a message, then a round of
calls) and becomes one ``Said``. The answers of a round follow it at once, in the order of its calls
and one for each, however and whether their outputs arrived: providers refuse anything else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from orchestrator.records import AskedCall, CallRound, Entry, Json, Message, Output

NO_OUTPUT: Final = (
    '{"error": {"type": "no_output", "message": "The run ended before this call was answered.",'
    ' "retryable": true}}'
)
"""What a later run is shown for a call that was open when its own run ended."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Something the user said; ``parts`` as stored (text and image parts)."""

    parts: tuple[Json, ...]

    @property
    def text(self) -> str:
        """The text parts, one after another."""
        return message_text(self.parts)


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of the model: words, calls, or both."""

    text: str
    calls: tuple[AskedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The output of one call."""

    call_id: str
    name: str
    text: str


Item = Heard | Said | Answered


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a model is shown: the system text, then everything since the thread began."""

    system: str
    items: tuple[Item, ...]


def message_text(parts: Iterable[Json]) -> str:
    """The words of stored message parts, refusals included."""
    return "\n".join(
        part["refusal"] if part["type"] == "refusal" else part["text"]["value"]
        for part in parts
        if part.get("type") in {"text", "refusal"}
    )


def build(system: str, entries: Iterable[Entry]) -> Conversation:
    """The conversation that these transcript entries tell."""
    ordered = tuple(entries)
    outputs = {entry.call_id: entry.text for entry in ordered if isinstance(entry, Output)}
    items: list[Item] = []
    last: Entry | None = None
    for entry in ordered:
        match entry:
            case Message():
                items.append(_spoken(entry))
            case CallRound():
                before = items.pop() if _is_same_turn(last, entry) else None
                items.append(Said(before.text if before else "", entry.calls))
                items += _answers(entry, outputs)
            case Output():
                continue
            case _:
                assert_never(entry)
        last = entry
    return Conversation(system, tuple(items))


def _spoken(message: Message) -> Item:
    if message.role == "user":
        return Heard(message.content)
    return Said(message_text(message.content))


def _is_same_turn(last: Entry | None, entry: CallRound) -> bool:
    """Only what the model said has a turn, so a user's message never matches."""
    return isinstance(last, Message) and (last.run_id, last.turn) == (entry.run_id, entry.turn)


def _answers(entry: CallRound, outputs: Mapping[str, str]) -> list[Answered]:
    return [
        Answered(call.call_id, call.name, outputs.get(call.call_id, NO_OUTPUT))
        for call in entry.calls
    ]
