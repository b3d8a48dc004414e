"""What the strictest endpoints insist on, held against what they are sent."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from orchestrator.records import Json

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_chat(messages: Sequence[Json]) -> None:
    """Of chat completions: names, arguments, and at once an answer for every call, in order."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        for call in message.get("tool_calls", []):
            assert NAME.fullmatch(call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            waiting.append(call["id"])
    assert waiting == []


def check_messages(messages: Sequence[Json]) -> None:
    """Of Anthropic's API: user and assistant in turn, the user first and last, all results of a
    round before any words of the user, no empty text.
    """
    roles = [message["role"] for message in messages]
    assert roles[0] == roles[-1] == "user"
    assert all(one != other for one, other in pairwise(roles))
    asked: list[str] = []
    for message in messages:
        blocks = message["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == asked
        assert [block["type"] for block in blocks[: len(results)]] == ["tool_result"] * len(results)
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        calls = [block for block in blocks if block["type"] == "tool_use"]
        assert all(NAME.fullmatch(call["name"]) for call in calls)
        asked = [call["id"] for call in calls]
    assert asked == []
