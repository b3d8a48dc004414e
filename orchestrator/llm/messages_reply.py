"""A streamed answer of Anthropic's Messages API, put together again. Pure.

Blocks are kept as they came, since an answer that paused is sent back whole, and so is a turn whose
calls were answered: thoughts with their signatures, searches with their results.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic_core import from_json

from orchestrator.commands import Stop
from orchestrator.errors import ModelError
from orchestrator.llm.endings import failure_for, is_tokens, stop_for
from orchestrator.llm.protocol import CallDelta, Delta, Reply, ReplyCall, TextDelta
from orchestrator.llm.surrogates import Joiner, whole
from orchestrator.records import Json, Usage

STOPS: Final = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""What the reasons that are limits are called in ``endings``."""

STATUSES: Final = {
    "invalid_request_error": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Errors within a stream have a type and no status."""

JOINED: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

PLAIN: Final = frozenset({"text", "tool_use"})
"""Blocks of which nothing is lost if they are written anew."""

RESULT: Final = "_tool_result"
"""What a block with the result of the provider's own tool ends its type with."""

DECLINED: Final = "The model declined to answer."


class MessagesReply:
    """Give it the events in order, of all answers of one turn; then ask for the reply.

    ``container`` is where the provider runs code for this turn, if it does.
    """

    def __init__(self) -> None:
        self.pauses = 0
        self.has_stopped = False
        self._blocks: list[Json] = []
        self._taken = 0
        self.container: str | None = None
        self._open: dict[Any, _Block] = {}
        self._text: list[str] = []
        self._joiner = Joiner()
        self._calls: list[_Block] = []
        self._stop_reason = ""
        self._refusal: str | None = None
        self._counts: Json = {}
        self._usage: Usage | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the answer has ended, and not only paused."""
        return self.has_stopped and self._stop_reason != "pause_turn"

    def take_blocks(self) -> list[Json]:
        """What the answer that has paused consists of; then feed on, with the next one."""
        taken = self._blocks[self._taken :]
        self._taken = len(self._blocks)
        self.has_stopped = self.is_whole
        return taken

    def feed(self, event: Json) -> Iterator[Delta]:
        """What this event adds. Raises ``ModelError`` if it reports a failure."""
        match event:
            case {"type": "error"}:
                raise _reported(event.get("error"))
            case {"type": "message_start", "message": {"usage": dict() as counts}}:
                self._count(counts)
            case {"type": "content_block_start", "content_block": dict() as block}:
                yield from self._start(event.get("index"), block)
            case {"type": "content_block_delta", "delta": dict() as delta}:
                if (begun := self._open.get(event.get("index"))) is not None:
                    yield from self._add(begun, delta)
            case {"type": "content_block_stop"}:
                if (ended := self._open.pop(event.get("index"), None)) is not None:
                    yield from ended.end()
            case {"type": "message_delta"}:
                self._message(event)
            case {"type": "message_stop"}:
                self._finish()

    def end(self) -> Iterator[Delta | Reply]:
        """What was kept back, then the whole reply."""
        yield from self._said(self._joiner.end())
        for block in self._open.values():
            yield from block.end()
        is_refused = self._stop_reason == "refusal"
        yield Reply(
            text="".join(self._text) or None,
            calls=() if is_refused else tuple(call.reply() for call in self._calls),
            stop=Stop.DONE
            if is_refused
            else stop_for(STOPS.get(self._stop_reason), has_calls=bool(self._calls)),
            usage=self._usage,
            refusal=(self._refusal or DECLINED) if is_refused else None,
            server_uses=uses_in(self._blocks),
            blocks=tuple(self._blocks) if self._calls and self._holds_more() else (),
        )

    def _holds_more(self) -> bool:
        return any(block.get("type") not in PLAIN for block in self._blocks)

    def _start(self, index: Any, content: Json) -> Iterator[Delta]:
        is_call = content.get("type") == "tool_use"
        block = _Block(dict(content), len(self._calls) if is_call else None)
        self._open[index] = block
        self._blocks.append(block.content)
        if is_call:
            self._calls.append(block)
            yield CallDelta(len(self._calls) - 1, whole(_str(content.get("name"))), "")
        elif content.get("type") == "text":
            yield from self._said(self._joiner.feed(_str(content.get("text"))))

    def _add(self, block: "_Block", delta: Json) -> Iterator[Delta]:
        kind = _str(delta.get("type"))
        if kind == "input_json_delta":
            yield from block.add_input(_str(delta.get("partial_json")))
        elif kind == "citations_delta":
            cited = block.content.get("citations") or []
            block.content["citations"] = [*cited, delta.get("citation")]
        elif field := JOINED.get(kind):
            piece = _str(delta.get(field))
            block.content[field] = _str(block.content.get(field)) + piece
            if field == "text":
                yield from self._said(self._joiner.feed(piece))

    def _said(self, text: str) -> Iterator[Delta]:
        if text:
            self._text.append(text)
            yield TextDelta(text)

    def _message(self, event: Json) -> None:
        delta = event.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        self._stop_reason = _str(delta.get("stop_reason")) or self._stop_reason
        match delta.get("container"):
            case {"id": str() as container}:
                self.container = container
        match delta.get("stop_details"):
            case {"explanation": str() as explanation}:
                self._refusal = explanation
        match event.get("usage"):
            case dict() as counts:
                self._count(counts)

    def _count(self, counts: Json) -> None:
        """Counts are totals of this answer so far: the last one of each name is right."""
        self._counts |= {name: count for name, count in counts.items() if is_tokens(count)}

    def _finish(self) -> None:
        self.has_stopped = True
        self.pauses += not self.is_whole
        if self._counts:
            self._usage = _usage(self._counts).plus(self._usage)
            self._counts = {}


def uses_in(blocks: Iterable[Json]) -> Mapping[str, int]:
    """How often the provider's own tools have run; what is only asked for is not yet done."""
    results = (block for block in blocks if _str(block.get("type")).endswith(RESULT))
    return Counter(_tool_of(block) for block in results if not _has_failed(block))


class _Block:
    """``number``: which call of the turn it is, if it is one."""

    def __init__(self, content: Json, number: int | None) -> None:
        self.content = content
        self._number = number
        self._joiner = Joiner()
        self._input = ""

    def add_input(self, piece: str) -> Iterator[Delta]:
        yield from self._take(self._joiner.feed(piece))

    def end(self) -> Iterator[Delta]:
        yield from self._take(self._joiner.end())
        if self._input:
            self.content["input"] = _object(self._input)

    def reply(self) -> ReplyCall:
        name, provider_id = (_str(self.content.get(field)) for field in ("name", "id"))
        arguments = self._input or json.dumps(self.content.get("input") or {})
        return ReplyCall(whole(name), arguments, provider_id or None)

    def _take(self, piece: str) -> Iterator[Delta]:
        self._input += piece
        if piece and self._number is not None:
            yield CallDelta(self._number, None, piece)


def _tool_of(block: Json) -> str:
    """Some tools work under several names: ``bash_code_execution`` is ``code_execution``."""
    name = _str(block.get("type")).removesuffix(RESULT)
    return "code_execution" if name.endswith("code_execution") else name


def _has_failed(block: Json) -> bool:
    content = block.get("content")
    return isinstance(content, dict) and _str(content.get("type")).endswith("_error")


def _usage(counts: Json) -> Usage:
    fresh, cached, written, said = (
        counts.get(name, 0)
        for name in (
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        )
    )
    return Usage(
        prompt_tokens=fresh + cached + written, completion_tokens=said, cached_tokens=cached
    )


def _reported(error: Any) -> ModelError:
    """A failure that is told within the stream, after the status 200 was sent."""
    details = error if isinstance(error, dict) else {}
    status = STATUSES.get(_str(details.get("type")), 500)
    return failure_for(
        status, f"The model broke off: {details.get('message') or 'no reason given'}"
    )


def _object(text: str) -> Json:
    try:
        value = from_json(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
