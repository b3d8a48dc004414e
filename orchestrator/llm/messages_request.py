"""The body of a request to Anthropic's Messages API. Pure.

What this API insists on: user and assistant in turn, the user first and last; all results of a
round in one user message, before any words of the user; no empty text. Two marks make its cache
hold what the next turn sends again: one after the system text, one at the end.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never

from pydantic_core import from_json

from orchestrator.conversation import Answered, Conversation, Heard, Item, Said
from orchestrator.llm.chat_request import tool_arguments, tool_name
from orchestrator.llm.protocol import TurnRequest
from orchestrator.records import Json, RunSpec

CACHE_MARK: Final[Json] = {"type": "ephemeral"}

NOTHING: Final = "(nothing was said)"
"""In place of an empty message."""

GO_ON: Final = "(go on)"
"""What the user says where nobody did: some models refuse to answer their own words."""


def messages_request(request: TurnRequest, max_output_tokens: int) -> Json:
    """Everything that the server is sent for this turn."""
    spec = request.spec
    asked = request.max_completion_tokens or max_output_tokens
    body: Json = {
        "model": spec.model,
        "max_tokens": min(asked, max_output_tokens),
        "messages": messages(request.conversation),
        "stream": True,
        **_tools(spec, request.tool_choice),
        **_sampling(spec),
    }
    if system := request.conversation.system.strip():
        body["system"] = [_text(system) | {"cache_control": CACHE_MARK}]
    elif tools := body.get("tools"):
        tools[-1]["cache_control"] = CACHE_MARK
    return body


def going_on(body: Json, blocks: Sequence[Json]) -> Json:
    """The same request once more, with what a paused answer has said so far."""
    return body | {"messages": [*body["messages"], {"role": "assistant", "content": list(blocks)}]}


def messages(conversation: Conversation) -> list[Json]:
    """The conversation in the API's words; the last block carries the mark of the cache."""
    found: list[Json] = []
    for item in conversation.items:
        _say(found, "assistant" if isinstance(item, Said) else "user", _blocks(item))
    if not found or found[0]["role"] == "assistant":
        found.insert(0, {"role": "user", "content": [_text(NOTHING)]})
    if found[-1]["role"] == "assistant":
        _say(found, "user", [_text(GO_ON)])
    found[-1]["content"][-1]["cache_control"] = CACHE_MARK
    return found


def _say(found: list[Json], role: str, blocks: list[Json]) -> None:
    if found and found[-1]["role"] == role:
        found[-1]["content"] += blocks
    elif blocks:
        found.append({"role": role, "content": blocks})


def _blocks(item: Item) -> list[Json]:
    match item:
        case Heard():
            return list(_heard(item.parts)) or [_text(NOTHING)]
        case Said():
            spoken = [_text(item.text)] if item.text.strip() else []
            return spoken + [
                {
                    "type": "tool_use",
                    "id": call.call_id,
                    "name": tool_name(call.name),
                    "input": from_json(tool_arguments(call.arguments)),
                }
                for call in item.calls
            ]
        case Answered():
            return [{"type": "tool_result", "tool_use_id": item.call_id, "content": item.text}]
        case _:
            assert_never(item)


def _heard(parts: Iterable[Json]) -> Iterable[Json]:
    for part in parts:
        match part:
            case {"type": "text", "text": {"value": str() as text}}:
                if text.strip():
                    yield _text(text)
            case {"type": "image_url", "image_url": {"url": str() as url}}:
                yield {"type": "image", "source": _source(url)}
            case _:
                yield _text(f"[A part of type {part.get('type')} is left out.]")


def _source(url: str) -> Json:
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    return {"type": "url", "url": url}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _tools(spec: RunSpec, choice: Any) -> Json:
    tools = [_tool(tool["function"]) for tool in spec.tools if tool.get("type") == "function"]
    if not tools:
        return {}
    asked = _choice(choice)
    if not spec.parallel_tool_calls and asked != {"type": "none"}:
        asked = (asked or {"type": "auto"}) | {"disable_parallel_tool_use": True}
    return {"tools": tools} | ({"tool_choice": asked} if asked else {})


def _tool(function: Json) -> Json:
    found = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    return found | ({"description": text} if (text := function.get("description")) else {})


def _choice(choice: Any) -> Json | None:
    match choice:
        case "required":
            return {"type": "any"}
        case "none":
            return {"type": "none"}
        case {"type": "function", "function": {"name": str() as name}}:
            return {"type": "tool", "name": name}
        case _:
            return None


def _sampling(spec: RunSpec) -> Json:
    """At most one of the two: newer models refuse both together. Here 1 is as hot as it gets."""
    sent: Json = {}
    if spec.temperature is not None and spec.temperature < 1:
        sent["temperature"] = spec.temperature
    elif spec.top_p is not None and spec.top_p != 1:
        sent["top_p"] = spec.top_p
    match spec.response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            sent["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return sent
