"""A streamed chat completion, put together again. Pure; forgiving where servers are known to err.

* Pieces go by ``index`` wherever they stand in a chunk; calls are numbered as they first appear.
* Without ``index``: a piece with a new id or with a name begins a call, any other goes on.
* Some servers give all parallel calls index 0. A named piece under another id begins a new call
  when the arguments so far are a whole object.
* A name may be split, or repeated with each piece. It is passed on when the arguments begin.
* A piece that repeats arguments that are already a whole object is the replay of some servers at
  their end, and is dropped: after a whole object nothing more can be right.
* The usage may come in any chunk, also in one without choices; the last one counts.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from orchestrator.errors import ModelError
from orchestrator.llm.endings import failure_for, is_tokens, stop_for
from orchestrator.llm.protocol import CallDelta, Delta, Reply, ReplyCall, TextDelta
from orchestrator.llm.surrogates import Joiner, whole
from orchestrator.records import Json, Usage


class ChatReply:
    """Give it the chunks in order, then ask for the reply."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._text: list[str] = []
        self._text_joiner = Joiner()
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage: Usage | None = None

    def feed(self, chunk: Json) -> Iterator[Delta]:
        """What this chunk adds. Raises ``ModelError`` if it reports a failure."""
        if error := chunk.get("error"):
            raise _reported(error)
        self._usage = _usage(chunk.get("usage")) or self._usage
        for choice in _dicts(chunk.get("choices"))[:1]:
            self.finish_reason = _str(choice.get("finish_reason")) or self.finish_reason
            delta = choice.get("delta")
            if isinstance(delta, dict):
                yield from self._feed_text(_str(delta.get("content")))
                self._refusal.append(_str(delta.get("refusal")))
                for piece in _dicts(delta.get("tool_calls")):
                    yield from self._feed_call(piece)

    def end(self) -> Iterator[Delta | Reply]:
        """What was kept back, then the whole reply. Raises ``ModelError`` if that is none."""
        if self.finish_reason == "error":
            raise _reported(None)
        yield from self._said(self._text_joiner.end())
        for call in self._calls:
            yield from call.end()
        yield Reply(
            text="".join(self._text) or None,
            calls=tuple(call.reply() for call in self._calls),
            stop=stop_for(self.finish_reason, has_calls=bool(self._calls)),
            usage=self._usage,
            refusal=whole("".join(self._refusal)) or None,
        )

    def _feed_text(self, piece: str) -> Iterator[Delta]:
        yield from self._said(self._text_joiner.feed(piece))

    def _said(self, text: str) -> Iterator[Delta]:
        if text:
            self._text.append(text)
            yield TextDelta(text)

    def _feed_call(self, piece: Json) -> Iterator[Delta]:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = _str(function.get("name")), _arguments(function.get("arguments"))
        if name or arguments:
            call = self._call_for(piece.get("index"), _str(piece.get("id")), name)
            yield from call.feed(name, arguments)

    def _call_for(self, index: Any, call_id: str, name: str) -> "_Call":
        if isinstance(index, int):
            call = self._by_index.get(index)
        else:
            call = self._unindexed(call_id, name)
        if call is None or call.is_followed_by(call_id, name):
            call = _Call(len(self._calls), call_id)
            self._calls.append(call)
            if isinstance(index, int):
                self._by_index[index] = call
        return call

    def _unindexed(self, call_id: str, name: str) -> "_Call | None":
        known = next((call for call in self._calls if call_id and call.id == call_id), None)
        if known or call_id or name:
            return known
        return self._calls[-1] if self._calls else None


class _Call:
    def __init__(self, number: int, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.arguments = ""
        self._number = number
        self._joiner = Joiner()
        self._told_chars = 0
        self._is_named = False

    def is_followed_by(self, call_id: str, name: str) -> bool:
        """Whether such a piece under our own index can only be the begin of another call."""
        return bool(call_id and name and call_id != self.id) and self._is_whole()

    def feed(self, name: str, arguments: str) -> Iterator[Delta]:
        if name != self.name:
            self.name += name
        if arguments and not (arguments == self.arguments and self._is_whole()):
            self.arguments += self._joiner.feed(arguments)
        if self.name and len(self.arguments) > self._told_chars:
            yield self._tell()

    def end(self) -> Iterator[Delta]:
        self.arguments += self._joiner.end()
        if not self._is_named or len(self.arguments) > self._told_chars:
            yield self._tell()

    def reply(self) -> ReplyCall:
        return ReplyCall(whole(self.name), self.arguments, self.id or None)

    def _tell(self) -> CallDelta:
        name = None if self._is_named else whole(self.name)
        piece = self.arguments[self._told_chars :]
        self._told_chars = len(self.arguments)
        self._is_named = True
        return CallDelta(self._number, name, piece)

    def _is_whole(self) -> bool:
        try:
            return isinstance(from_json(self.arguments), dict)
        except ValueError:
            return False


def _reported(error: Any) -> ModelError:
    """A failure that is told within the stream, after the status 200 was sent."""
    details = error if isinstance(error, dict) else {"message": error}
    code = details.get("code")
    if "rate_limit" in f"{code} {details.get('type')}":
        status = 429
    else:
        status = code if isinstance(code, int) and 400 <= code <= 599 else 500
    reason = details.get("message") or "no reason given"
    return failure_for(status, f"The model broke off: {reason}")


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    counts = [
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        details.get("cached_tokens") if isinstance(details, dict) else None,
    ]
    if not any(is_tokens(count) for count in counts):
        return None
    prompt, completion, cached = (count if is_tokens(count) else 0 for count in counts)
    return Usage(
        prompt_tokens=prompt, completion_tokens=completion, cached_tokens=min(cached, prompt)
    )


def _arguments(value: Any) -> str:
    """Some servers send the object itself instead of its text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _str(value)


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
