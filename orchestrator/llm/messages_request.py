"""The body of a request to Anthropic's Messages API. Pure.

What this API insists on: user and assistant in turn, the user first and last; all results of a
round in one user message, before any words of the user; no empty text. Two marks make its cache
hold what the next turn sends again: one after the system text, one at the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, assert_never

from pydantic_core import from_json

from orchestrator.conversation import Answered, Conversation, Heard, Item, Recalled, Said
from orchestrator.llm.chat_request import tool_arguments, tool_name
from orchestrator.llm.protocol import TurnRequest
from orchestrator.records import AskedCall, Json, RunSpec
from orchestrator.server_tools import name_of, server_tools, with_uses_left

CACHE_MARK: Final[Json] = {"type": "ephemeral"}

EFFORTS: Final = {"minimal": "low"}
"""What is called otherwise here."""

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
        **_tools(request),
        **_sampling(spec),
    }
    if system := request.conversation.system.strip():
        body["system"] = [_text(system) | {"cache_control": CACHE_MARK}]
    elif tools := body.get("tools"):
        tools[-1]["cache_control"] = CACHE_MARK
    if used_up := _used_up(spec):
        body["system"] = [*body.get("system", []), _text(used_up)]
    return body


def going_on(
    body: Json, blocks: Sequence[Json], uses: Mapping[str, int], container: str | None = None
) -> Json:
    """The same request once more, with what a paused answer has said so far, and with as many uses
    of each tool as are left. None is taken away: what has begun must be able to end.
    """
    said = {"role": "assistant", "content": list(blocks)}
    found = body | {"messages": [*body["messages"], said]}
    if container:
        found["container"] = container
    if "tools" in body:
        found["tools"] = [
            tool | ({"max_uses": 1} if tool.get("max_uses") == 0 else {})
            for tool in with_uses_left(body["tools"], uses)
        ]
    return found


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
        case Recalled():
            return [_text(item.text)]
        case Said():
            uses = [_tool_use(call) for call in item.calls]
            spoken = [_text(item.text)] if item.text.strip() else []
            return _as_written(item, uses) or spoken + uses
        case Answered():
            return [{"type": "tool_result", "tool_use_id": item.call_id, "content": item.text}]
        case _:
            assert_never(item)


def _as_written(said: Said, uses: Sequence[Json]) -> list[Json]:
    """What the provider wrote, with our ids and arguments of the calls; nothing if that is not what
    was said (a guardrail may have changed it).
    """
    texts = [block.get("text") for block in said.blocks if block.get("type") == "text"]
    calls = [block for block in said.blocks if block.get("type") == "tool_use"]
    if "".join(map(str, texts)) != said.text or len(calls) != len(uses):
        return []
    made = iter(uses)
    kept = (block for block in said.blocks if block.get("text", "words").strip())
    return [next(made) if block.get("type") == "tool_use" else dict(block) for block in kept]


def _tool_use(call: AskedCall) -> Json:
    return {
        "type": "tool_use",
        "id": call.call_id,
        "name": tool_name(call.name),
        "input": from_json(tool_arguments(call.arguments)),
    }


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


def _tools(request: TurnRequest) -> Json:
    spec = request.spec
    tools = [_tool(tool["function"]) for tool in spec.tools if tool.get("type") == "function"]
    tools += [_server_tool(tool) for tool in server_tools(spec.tools) if tool.get("max_uses") != 0]
    if not tools:
        return _tools_of_before(request.conversation)
    asked = _choice(request.tool_choice)
    if not spec.parallel_tool_calls and asked != {"type": "none"}:
        asked = (asked or {"type": "auto"}) | {"disable_parallel_tool_use": True}
    return {"tools": tools} | ({"tool_choice": asked} if asked else {})


def _tool(function: Json) -> Json:
    found = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    return found | ({"description": text} if (text := function.get("description")) else {})


def _server_tool(tool: Json) -> Json:
    """As it was declared; running code has no limit of uses at the provider."""
    kept = {
        field: value
        for field, value in tool.items()
        if value is not None and (field != "max_uses" or name_of(tool) != "code_execution")
    }
    return kept | {"name": name_of(tool)}


def _used_up(spec: RunSpec) -> str:
    names = [name_of(tool) for tool in server_tools(spec.tools) if tool.get("max_uses") == 0]
    return f"Used up, and no longer available: {', '.join(names)}." if names else ""


def _tools_of_before(conversation: Conversation) -> Json:
    """Calls in the history must be of tools that are declared, even where none may be called."""
    said = (item for item in conversation.items if isinstance(item, Said))
    names = sorted({tool_name(call.name) for item in said for call in item.calls})
    if not names:
        return {}
    return {"tools": [_tool({"name": name}) for name in names], "tool_choice": {"type": "none"}}


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
    if (effort := spec.reasoning_effort) == "none":
        sent["thinking"] = {"type": "disabled"}
    elif effort:
        sent["output_config"] = {"effort": EFFORTS.get(effort, effort)}
    match spec.response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            form = {"format": {"type": "json_schema", "schema": schema}}
            sent["output_config"] = sent.get("output_config", {}) | form
    return sent
