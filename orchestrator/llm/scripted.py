"""Models that play a script: no key, no network, the same answer each time.

``scripted/echo`` says what the user said last, ``scripted/NAME`` plays NAME.yaml of the scripts
folder, ``scripted/inline`` plays the newest user message that is a script. Nothing is kept between
turns: which entry is due follows from the run's own counters, so any engine plays on rightly.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Final

from orchestrator.llm.endings import failure_for, stop_for
from orchestrator.llm.protocol import CallDelta, Delta, Reply, ReplyCall, TextDelta, TurnRequest
from orchestrator.llm.script import SUMMARY, Turn
from orchestrator.llm.script_reader import find_script, read_script
from orchestrator.llm.templates import Renderer, newest_user_text
from orchestrator.records import Usage

PREFIX: Final = "scripted/"

PIECE_CHARS: Final = 16
"""How much of a call's arguments comes with one delta."""

WORDS: Final = re.compile(r"\S+\s*|\s+")


class ScriptedModel:
    """All models named ``scripted/…``."""

    def __init__(self, scripts_dir: Path | None = None) -> None:
        self._scripts_dir = scripts_dir

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """Play the entry that is due."""
        turn, reply = self._due(request)
        await _pause(turn.delay_s)
        for number, delta in enumerate(_deltas(reply, calls_first=turn.calls_first)):
            if number:
                await _pause(turn.chunk_delay_s)
            yield delta
        if turn.error is not None:
            raise failure_for(turn.error.status, turn.error.message)
        yield reply

    def _due(self, request: TurnRequest) -> tuple[Turn, Reply]:
        """The entry, and what it comes to in this conversation."""
        name = request.spec.model.removeprefix(PREFIX)
        if name == "echo":
            return Turn(), Reply(newest_user_text(request.conversation))
        if is_inline := name == "inline":
            if request.is_summary:  # which has no message of the user in it
                return SUMMARY, Reply(SUMMARY.text)
            script = find_script(request.conversation)
        else:
            script = read_script(self._scripts_dir, name)
        position = request.turn + request.failed_attempts
        turn = script.summary if request.is_summary else script.at(position)
        return turn, _reply(turn, Renderer(request.conversation, may_compute=not is_inline))


def _reply(turn: Turn, renderer: Renderer) -> Reply:
    return Reply(
        text=None if turn.text is None else renderer.text(turn.text),
        # Ids such as some servers give: the same ones again in each turn.
        calls=tuple(
            ReplyCall(call.name, _arguments(call.arguments, renderer), f"call_{number}")
            for number, call in enumerate(turn.tool_calls, start=1)
        ),
        stop=stop_for(turn.finish_reason, has_calls=bool(turn.tool_calls)),
        usage=Usage(**turn.usage.model_dump()) if turn.usage else None,
        refusal=turn.refusal,
        server_uses=turn.server_uses,
    )


def _arguments(arguments: Any, renderer: Renderer) -> str:
    """As the model writes them: an object as compact JSON, a raw string untouched."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(renderer.value(arguments), ensure_ascii=False, separators=(",", ":"))


def _deltas(reply: Reply, *, calls_first: bool) -> Iterator[Delta]:
    if not calls_first:
        yield from _words(reply)
    yield from _calls(reply)
    if calls_first:
        yield from _words(reply)


def _words(reply: Reply) -> Iterator[Delta]:
    for word in WORDS.findall(reply.text or ""):
        yield TextDelta(word)


def _calls(reply: Reply) -> Iterator[Delta]:
    for index, call in enumerate(reply.calls):
        yield CallDelta(index, call.name, call.arguments[:PIECE_CHARS])
        for start in range(PIECE_CHARS, len(call.arguments), PIECE_CHARS):
            yield CallDelta(index, None, call.arguments[start : start + PIECE_CHARS])


async def _pause(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)
