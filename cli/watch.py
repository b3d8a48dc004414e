"""``runstate runs watch``: what a run tells, while it tells it."""

import json
from collections.abc import Iterator
from typing import Any, Final

from cli.client import Client
from cli.terminal import one_line, printable

NOT_TOLD: Final = frozenset({"in_progress", "created"})
"""Of steps and messages: that they begin is seen from what they say."""


async def watch_run(client: Client, run_id: str) -> None:
    """Prints a run from its beginning to its end; text as it comes."""
    async with client:
        report = await client.get(f"/ops/runs/{run_id}")
        path = f"/v1/threads/{report['run']['thread_id']}/runs/{run_id}/events"
        story = Story()
        async for event in client.events(path):
            for piece in story.tell(event.event, event.id, event.data):
                print(piece, end="", flush=True)


class Story:
    """Turns events into what is printed. Times are distances from the first event."""

    def __init__(self) -> None:
        self._began_ms = 0
        self._is_speaking = False

    def tell(self, name: str, event_id: str, data: str) -> Iterator[str]:
        """What to print for an event, a whole line or a piece of one."""
        at_ms = int(event_id.partition("-")[0])
        self._began_ms = self._began_ms or at_ms
        document: dict[str, Any] = json.loads(data)
        if name == "thread.message.delta":
            if not self._is_speaking:
                yield self._start(at_ms, "says")
                self._is_speaking = True
            yield printable(_text(document))
            return
        for subject, text in _lines(name.removeprefix("thread."), document):
            if self._is_speaking:
                yield "\n"
                self._is_speaking = False
            yield f"{self._start(at_ms, subject)}{one_line(text)}\n"

    def _start(self, at_ms: int, subject: str) -> str:
        return f"{(at_ms - self._began_ms) / 1000:+9.3f} s  {subject:<7} "


def _text(delta: dict[str, Any]) -> str:
    return "".join(
        part["refusal"] if "refusal" in part else part["text"].get("value", "")
        for part in delta["delta"]["content"]
    )


def _lines(name: str, document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kind, _, status = name.rpartition(".")
    if kind == "run":
        yield "run", f"{status}{_reason(document)}"
        if status == "requires_action":
            action = document["required_action"]
            for call in action[action["type"]]["tool_calls"]:
                function = call.get("function", call)
                whom = "the client" if "function" in call else "approval"
                yield "call", f"{function['name']} {function['arguments']} waits for {whom}"
    elif kind == "run.step" and status not in {*NOT_TOLD, "delta"}:
        for call in document["step_details"].get("tool_calls", ()):
            function = call["function"]
            yield "call", f"{function['name']} {function['arguments']} → {function['output']}"
    elif kind == "message" and status not in NOT_TOLD:
        yield "message", f"{status}{_reason(document)}"


def _reason(document: dict[str, Any]) -> str:
    error = document.get("last_error")
    if error:
        return f": {error['code']}: {error['message']}"
    details = document.get("incomplete_details") or {}
    known = (details.get(field) for field in ("reason", "message"))
    return "".join(f": {text}" for text in known if text)
