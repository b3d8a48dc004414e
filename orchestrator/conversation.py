"""From the transcript to what a model is shown. Pure; the transcript is the only memory.

A group is what goes or stays as a whole (see ``truncation``). A turn of the model that spoke and
asked for tools is two entries (a message, then a round of calls) and becomes one ``Said``. The
answers of a round follow it at once, in the order of its calls and one for each, however and
whether their outputs arrived: providers refuse anything else. A summary stands in the place of the
groups that it replaces, and what guardrails made of an entry in the place of the entry.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, assert_never

from orchestrator.records import (
    AskedCall,
    CallRound,
    Entry,
    Guarded,
    Json,
    Message,
    Output,
    Spans,
    Summary,
)

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
    """One turn of the model: words, calls, or both; ``blocks`` as its provider wrote it, if that
    holds more (see ``CallRound``).
    """

    text: str
    calls: tuple[AskedCall, ...] = ()
    blocks: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The output of one call."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a model wrote of an earlier part of the conversation, which is not shown any more."""

    summary: str

    @property
    def text(self) -> str:
        """In words that tell it from what the user says."""
        return f"[Summary of an earlier part of this conversation]\n{self.summary}"


Item = Heard | Said | Answered | Recalled


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a model is shown: the system text, then everything since the thread began."""

    system: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Something the user said, or one turn of the model with the answers to its calls.

    ``seqs``: its entries' places in the transcript; ``run_id``: whose turn it is, if it is one;
    ``is_pinned``: whoever made the tool or sent the message wants it kept. ``replaces``: the places
    that a summary stands for.
    """

    items: tuple[Item, ...]
    seqs: tuple[int, ...]
    run_id: str | None = None
    is_pinned: bool = False
    replaces: Spans = ()

    @property
    def place(self) -> int:
        """Where it stands among the others."""
        return self.replaces[0][0] if self.replaces else self.seqs[0]


def message_text(parts: Iterable[Json]) -> str:
    """The words of stored message parts, refusals included."""
    return "\n".join(
        part["refusal"] if part["type"] == "refusal" else part["text"]["value"]
        for part in parts
        if part.get("type") in {"text", "refusal"}
    )


def build(system: str, groups: Iterable[Group], run_id: str | None = None) -> Conversation:
    """The conversation that these groups tell. ``blocks`` are shown to the run that has got them:
    another one's model may not be able to read them.
    """
    items = ((group, item) for group in groups for item in group.items)
    return Conversation(
        system,
        tuple(
            replace(item, blocks=())
            if isinstance(item, Said) and item.blocks and group.run_id != run_id
            else item
            for group, item in items
        ),
    )


def grouped(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """The groups of these transcript entries, in order, summaries in place of what they replace."""
    groups = _groups(entries)
    hidden = {seq for group in groups for a, z in group.replaces for seq in range(a, z + 1)}
    shown = (group for group in groups if group.seqs[0] not in hidden)
    return tuple(sorted(shown, key=attrgetter("place")))


def _groups(entries: Iterable[Entry]) -> list[Group]:
    given = tuple(entries)
    guarded = {entry.of_seq: entry for entry in given if isinstance(entry, Guarded)}
    ordered = tuple(_as_guarded(entry, guarded.get(entry.seq)) for entry in given)
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
            case Output() | Guarded():
                continue
            case Summary():
                item = Recalled(entry.text)
                groups.append(Group((item,), (entry.seq,), replaces=entry.replaces))
            case _:
                assert_never(entry)
        last = entry
    return [_with_guards(group, guarded) for group in groups] if guarded else groups


def _as_guarded(entry: Entry, guarded: Guarded | None) -> Entry:
    """The entry as models are shown it."""
    if guarded is not None and isinstance(entry, Output):
        return entry.but(text=guarded.text)
    if guarded is not None and isinstance(entry, Message):
        words = {"type": "text", "text": {"value": guarded.text, "annotations": []}}
        others = () if guarded.is_stopped else (p for p in entry.content if p["type"] != "text")
        return entry.but(content=(words, *others))
    return entry


def _with_guards(group: Group, guarded: Mapping[int, Guarded]) -> Group:
    """Whoever is shown the group is shown these entries too."""
    return replace(
        group, seqs=(*group.seqs, *(guarded[seq].seq for seq in group.seqs if seq in guarded))
    )


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
        (Said(text, calls, entry.blocks), *_answers(entry.calls, outputs)),
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
