"""What came of a run, for the assertions of a test."""

import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from orchestrator.conversation import message_text
from orchestrator.records import CallState, Message, MessageStatus, ToolCall
from orchestrator.states import RunStatus
from orchestrator.store import RunRef, Store


@dataclass(frozen=True, slots=True)
class PlayedCall:
    """One call. ``output`` is what the model reads, ``None`` if it has none yet; ``late`` what came
    when it no longer counted; ``record`` all that the ledger knows.
    """

    name: str
    arguments: str
    state: CallState
    attempts: int
    output: str | None
    late: tuple[str, ...]
    record: ToolCall

    def json(self) -> Any:
        """The output, read as JSON."""
        return json.loads(self.output or "")


@dataclass(frozen=True, slots=True)
class Played:
    """A run that has ended, or waits for somebody. ``answers`` is what the assistant said,
    ``error`` why the run failed.
    """

    ref: RunRef
    status: RunStatus
    answers: tuple[str, ...]
    calls: tuple[PlayedCall, ...]
    error: str | None


async def read_played(store: Store, ref: RunRef) -> Played:
    """The run as it is now."""
    view = await store.view(ref)
    seqs = [call.output_seq for call in view.calls if call.output_seq is not None]
    outputs = await store.read_outputs(ref.thread_id, seqs)
    entries = await store.read_entries(ref.thread_id)
    error = view.run.last_error
    return Played(
        ref,
        view.run.status,
        tuple(message_text(entry.content) for entry in entries if _is_answer(entry)),
        tuple(_played(call, outputs.get(call.id)) for call in view.calls),
        error.message if error else None,
    )


def _played(call: ToolCall, output: str | None) -> PlayedCall:
    late = tuple(result.text for result in call.late)
    return PlayedCall(call.name, call.arguments, call.state, call.attempts, output, late, call)


def _is_answer(entry: object) -> TypeGuard[Message]:
    return (
        isinstance(entry, Message)
        and entry.role == "assistant"
        and entry.status is MessageStatus.COMPLETED
        and not entry.is_void
    )
