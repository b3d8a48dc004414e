"""From the transcript to what a model is shown. Pure; the transcript is the only memory.

A group is what goes or stays as a whole (see ``truncation``). A turn of the model that spoke and
asked for tools is two entries (a message, then a round of calls) and becomes one ``Said``. The
answers of a round follow it at once, in the order of its calls and one for each, however and
whether their outputs arrived: providers refuse anything else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from orchestrator.records import AskedCall, CallRound, Entry, Json, Message, Output

NO_OUTPUT: Final = (
    '{"error": {"type": "no_output", "message": "The run ended before this call was answered.",'
    ' "retryable": true}}'
)
"""What a later run is shown for a call that was open when its own run ended."""

PIN: Final = "runstate_pin"
"""A message with this key in its metadata, and the value "true", is never left out."""


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


@dataclass(frozen=True, slots=True)
class Group:
    """Something the user said, or one turn of the model with the answers to its calls.

    ``seqs``: its entries' places in the transcript; ``run_id``: whose turn it is, if it is one;
    ``is_pinned``: whoever made the tool or sent the message wants it kept.
    """

    items: tuple[Item, ...]
    seqs: tuple[int, ...]
    run_id: str | None = None
    is_pinned: bool = False


def message_text(parts: Iterable[Json]) -> str:
    """The words of stored message parts, refusals included."""
    return "\n".join(
        part["refusal"] if part["type"] == "refusal" else part["text"]["value"]
        for part in parts
        if part.get("type") in {"text", "refusal"}
    )


def build(system: str, groups: Iterable[Group]) -> Conversation:
    """The conversation that these groups tell."""
    return Conversation(system, tuple(item for group in groups for item in group.items))


def grouped(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """The groups of these transcript entries, in order."""
    ordered = tuple(entries)
    outputs = {entry.call_id: entry for entry in ordered if isinstance(entry, Output)}
    groups: list[Group] = []
    last: Entry | None = None
    for entry in ordered:
        match entry:
            case Message(is_void=True):
                continue
            case Message():
                groups.append(_message(entry))
            case CallRound():
                before = groups.pop() if _is_same_turn(last, entry) else None
                groups.append(_round(before, entry, outputs))
            case Output():
                continue
            case _:
                assert_never(entry)
        last = entry
    return tuple(groups)


def _message(message: Message) -> Group:
    is_user = message.role == "user"
    item = Heard(message.content) if is_user else Said(message_text(message.content))
    is_pinned = message.metadata.get(PIN) == "true"
    return Group((item,), (message.seq,), None if is_user else message.run_id, is_pinned)


def _round(before: Group | None, entry: CallRound, outputs: Mapping[str, Output]) -> Group:
    """The turn that asked for these calls; ``before``: what it said."""
    text = "".join(item.text for item in before.items) if before else ""
    answered = [outputs[call.call_id] for call in entry.calls if call.call_id in outputs]
    calls = tuple(_as_made(call, outputs.get(call.call_id)) for call in entry.calls)
    return Group(
        (Said(text, calls), *_answers(entry.calls, outputs)),
        (*(before.seqs if before else ()), entry.seq, *(output.seq for output in answered)),
        entry.run_id,
        bool(before and before.is_pinned) or any(call.is_pinned for call in entry.calls),
    )


def _as_made(call: AskedCall, output: Output | None) -> AskedCall:
    """With the arguments that its output belongs to, which an operator may have edited."""
    is_edited = output is not None and output.arguments is not None
    return call.but(arguments=output.arguments) if output and is_edited else call


def _is_same_turn(last: Entry | None, entry: CallRound) -> bool:
    """Only what the model said has a turn, so a user's message never matches."""
    return isinstance(last, Message) and (last.run_id, last.turn) == (entry.run_id, entry.turn)


def _answers(calls: Sequence[AskedCall], outputs: Mapping[str, Output]) -> list[Answered]:
    texts = {call_id: output.text for call_id, output in outputs.items()}
    return [Answered(call.call_id, call.name, texts.get(call.call_id, NO_OUTPUT)) for call in calls]
