"""How a model is asked for a summary of older entries. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from orchestrator.conversation import (
    Answered,
    Conversation,
    Group,
    Heard,
    Item,
    Recalled,
    Said,
    message_text,
)

INSTRUCTIONS: Final = (
    "You are given an earlier part of a conversation between a user and an assistant that calls"
    " tools. Write a summary that will stand in its place; the assistant will not see the part"
    " itself again. Keep what was asked for and agreed on, every fact, name, number, date, address"
    " and id that tools returned, what was done with which outcome, and what is still open. Leave"
    " out pleasantries. Do not continue the conversation, and do not answer it: the answer is the"
    " summary alone."
)


def to_be_summarised(groups: Iterable[Group]) -> Conversation:
    """As one text, since tools that are not declared may not be in a history."""
    lines = (line for group in groups for item in group.items for line in _lines(item))
    part = {"type": "text", "text": {"value": "\n\n".join(lines), "annotations": []}}
    return Conversation(INSTRUCTIONS, (Heard((part,)),))


def _lines(item: Item) -> Iterator[str]:
    match item:
        case Heard():
            yield f"user: {message_text(item.parts) or '[no text]'}"
        case Said():
            if item.text:
                yield f"assistant: {item.text}"
            yield from (f"assistant calls: {call.name} {call.arguments}" for call in item.calls)
        case Answered():
            yield f"{item.name} returns: {item.text}"
        case Recalled():
            yield item.text
        case _:
            assert_never(item)
