"""The events of a run's log as the frames that clients read.

One ``event`` line, one ``data`` line, an empty line: some clients read nothing else rightly. Each
event is rendered from itself alone, so every process sends the same bytes, in whatever order it was
asked for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from api.shapes import answered_seqs, message_object, run_object, step_object
from api.streaming.places import EventKey, Place, event_key
from orchestrator.decisions import Event, EventType
from orchestrator.projection import required_calls
from orchestrator.records import Json, MessageStatus, Run, RunSpec
from orchestrator.store import RunView, Store

DONE: Final = b"event: done\ndata: [DONE]\n\n"

KEEP_ALIVE: Final = b": keep-alive\n"
"""A comment without an empty line after it: with one, some clients see an event without a name."""

_ESCAPES: Final = tuple(
    (mark.encode(), rf"\u{ord(mark):04x}".encode()) for mark in "\x85\u2028\u2029"
)
"""What JSON leaves as it is although some clients end a line there."""

_OPENED: Final = frozenset({EventType.STEP_CREATED, EventType.MESSAGE_CREATED})

_WITHIN_TURNS: Final = frozenset({EventType.TURN_LOST, EventType.TURN_COMPACTED})
"""Events of the run that the API has no words for."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What clients are shown of one event: no frame, one, or two. ``waits_for``: the ids of the
    calls that the client must answer from here on.
    """

    key: EventKey
    frames: tuple[bytes, ...] = ()
    is_final: bool = False
    waits_for: frozenset[str] = frozenset()

    def after(self, place: Place) -> Iterator[tuple[Place, bytes]]:
        """Those of its frames that a reader at ``place`` has not had, with their ids."""
        for number, frame in enumerate(self.frames):
            at = Place(*self.key, number)
            if at > place:
                yield at, frame


def frame(name: str, document: Mapping[str, Any]) -> bytes:
    """One frame."""
    data = to_json(document)
    for mark, escape in _ESCAPES:
        if mark in data:
            data = data.replace(mark, escape)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


async def render(store: Store, view: RunView, lines: Sequence[tuple[str, Event]]) -> list[Rendered]:
    """A part of the log as clients see it; of ``view`` only what never changes is used. One round
    trip if steps show outputs, else none.
    """
    seqs = [seq for _, event in lines if event.step for seq in answered_seqs(event.calls)]
    outputs = await store.read_outputs(view.run.thread_id, seqs) if seqs else {}
    return [_render(view, line, outputs) for line in lines]


def _render(view: RunView, line: tuple[str, Event], outputs: Mapping[str, str]) -> Rendered:
    key, event = event_key(line[0]), line[1]
    if event.run is not None:
        return _run(key, event, event.run, view.spec)
    document = _document(view, event, outputs)
    if document is None:
        return Rendered(key)
    name = f"thread.{'run.' if event.step or 'step_id' in (event.delta or {}) else ''}{event.type}"
    if event.type not in _OPENED:
        return Rendered(key, (frame(name, document),))
    opened = name.removesuffix("created") + "in_progress"
    return Rendered(key, (frame(name, document), frame(opened, document)))


def _run(key: EventKey, event: Event, run: Run, spec: RunSpec) -> Rendered:
    """``requires_action`` is shown only if a call waits for the client; what happens within turns
    never is.
    """
    waits_for = frozenset(call.id for call in required_calls(run, event.calls))
    is_hidden = event.type is EventType.RUN_REQUIRES_ACTION and not waits_for
    if is_hidden or event.type in _WITHIN_TURNS:
        return Rendered(key)
    shown = frame(f"thread.{event.type}", run_object(run, spec, event.calls))
    is_waiting = event.type is EventType.RUN_REQUIRES_ACTION
    return Rendered(key, (shown,), run.is_final, waits_for if is_waiting else frozenset())


def _document(view: RunView, event: Event, outputs: Mapping[str, str]) -> Mapping[str, Any] | None:
    if event.message is not None:
        if event.type is EventType.MESSAGE_CREATED:
            opened = {"status": MessageStatus.IN_PROGRESS, "content": ()}
            return message_object(event.message.but(**opened))
        return message_object(event.message)
    if event.step is not None:
        if event.step.is_aside:
            return None
        calls = () if event.type is EventType.STEP_CREATED else event.calls
        return step_object(event.step, view.run, view.spec, calls, outputs)
    if event.delta is not None:
        return _delta(event.type, event.delta)
    return None


def _delta(kind: EventType, delta: Json) -> Json:
    """A delta says a key once: clients join texts, whichever key they are under."""
    if kind is EventType.MESSAGE_DELTA:
        return {
            "id": delta["message_id"],
            "object": "thread.message.delta",
            "delta": {"content": [{"index": delta.get("index", 0), **_part(delta)}]},
        }
    function: Json = {"arguments": delta["arguments"]}
    call: Json = {"index": delta["index"], "type": "function", "function": function}
    if "call_id" in delta:
        call["id"] = delta["call_id"]
        function |= {"name": delta["name"], "output": None}
    return {
        "id": delta["step_id"],
        "object": "thread.run.step.delta",
        "delta": {"step_details": {"type": "tool_calls", "tool_calls": [call]}},
    }


def _part(delta: Json) -> Json:
    if "refusal" in delta:
        return {"type": "refusal", "refusal": delta["refusal"]}
    text: Json = {"value": delta["text"]}
    if delta.get("is_first"):
        text["annotations"] = []
    return {"type": "text", "text": text}
