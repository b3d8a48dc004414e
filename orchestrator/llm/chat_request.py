"""The body of a chat completions request, made so that strict servers take it. Pure.

Only what differs from the API's default is sent: reasoning models and small servers refuse many
fields, even when these say what they would do anyway.
"""

import json
import re
from typing import Any, Final, assert_never

from pydantic_core import from_json

from orchestrator.conversation import Answered, Conversation, Heard, Item, Recalled, Said
from orchestrator.llm.protocol import TurnRequest
from orchestrator.records import AskedCall, Json, RunSpec

NAME_LIMIT_CHARS: Final = 64

BAD_NAME_CHARS: Final = re.compile(r"[^A-Za-z0-9_-]")


def chat_request(request: TurnRequest) -> Json:
    """Everything that the server is sent for this turn."""
    spec = request.spec
    return {
        "model": spec.model,
        "messages": messages(request.conversation),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_tools(spec, request.tool_choice),
        **_sampling(request),
    }


def messages(conversation: Conversation) -> list[Json]:
    """The conversation in the API's words; the system text comes first, unless it is empty."""
    system = [{"role": "system", "content": conversation.system}] if conversation.system else []
    return system + [message for item in conversation.items if (message := _message(item))]


def tool_name(name: str) -> str:
    """The name as any server takes it back: a model may have invented one that none accepts."""
    return BAD_NAME_CHARS.sub("_", name)[:NAME_LIMIT_CHARS] or "unnamed"


def tool_arguments(arguments: str) -> str:
    """The arguments as any server takes them back: always a JSON object.

    Servers that parse the history fail on the rest for ever, so nothing becomes ``{}`` and whatever
    else is not an object becomes ``{"_raw": "…"}``. What the model is told about it is the output.
    """
    if not arguments.strip():
        return "{}"
    try:
        is_object = isinstance(from_json(arguments, allow_inf_nan=False), dict)
    except ValueError:
        is_object = False
    return arguments if is_object else json.dumps({"_raw": arguments}, ensure_ascii=False)


def _message(item: Item) -> Json | None:
    match item:
        case Heard():
            return {"role": "user", "content": _content(item)}
        case Recalled():
            return {"role": "user", "content": item.text}
        case Said(text="", calls=()):
            return None
        case Said(text=text, calls=()):
            return {"role": "assistant", "content": text}
        case Said(text=text, calls=calls):
            return {
                "role": "assistant",
                "content": text or None,
                "tool_calls": [_call(call) for call in calls],
            }
        case Answered():
            return {"role": "tool", "tool_call_id": item.call_id, "content": item.text}
        case _:
            assert_never(item)


def _content(heard: Heard) -> str | list[Json]:
    """Plain text where that is all: many servers do not take parts."""
    if all(part.get("type") == "text" for part in heard.parts):
        return heard.text
    return [_part(part) for part in heard.parts]


def _part(part: Json) -> Json:
    match part:
        case {"type": "text", "text": {"value": str() as text}}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": dict() as image}:
            return {"type": "image_url", "image_url": image}
        case _:
            return {"type": "text", "text": f"[A part of type {part.get('type')} is left out.]"}


def _call(call: AskedCall) -> Json:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": tool_name(call.name), "arguments": tool_arguments(call.arguments)},
    }


def _tools(spec: RunSpec, choice: Any) -> Json:
    tools = [
        {"type": "function", "function": tool["function"]}
        for tool in spec.tools
        if tool.get("type") == "function"
    ]
    if not tools:
        return {}
    found: Json = {"tools": tools}
    if choice in {"none", "required"} if isinstance(choice, str) else _is_function(choice):
        found["tool_choice"] = choice
    if not spec.parallel_tool_calls:
        found["parallel_tool_calls"] = False
    return found


def _is_function(choice: Any) -> bool:
    return isinstance(choice, dict) and choice.get("type") == "function"


def _sampling(request: TurnRequest) -> Json:
    spec = request.spec
    sent = {
        "temperature": None if spec.temperature == 1 else spec.temperature,
        "top_p": None if spec.top_p == 1 else spec.top_p,
        "max_completion_tokens": request.max_completion_tokens,
        "response_format": None if spec.response_format == "auto" else spec.response_format,
        "reasoning_effort": spec.reasoning_effort,
    }
    return {name: value for name, value in sent.items() if value is not None}
