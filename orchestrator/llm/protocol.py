"""What a model is asked and what it answers, in no provider's words.

A turn needs nothing but its request: the model keeps no state between turns, and any engine can ask
again what another one asked before.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.commands import Stop
from orchestrator.conversation import Conversation
from orchestrator.records import Json, RunSpec, Usage


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One model turn.

    ``turn`` counts the run's finished turns, ``failed_attempts`` the failed model calls of the run
    so far, those of this turn included: together they say which attempt this is. ``tool_choice`` is
    what applies to this turn (a forced choice holds for the first turn of a run only),
    ``max_completion_tokens`` what is left of the run's limit. ``is_summary``: no turn is asked for,
    but a summary of what is in the conversation.
    """

    run_id: str
    spec: RunSpec
    conversation: Conversation
    turn: int
    failed_attempts: int
    tool_choice: Any = "auto"
    max_completion_tokens: int | None = None
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call. ``name`` comes once, with the first piece of its ``index``."""

    index: int
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class ReplyCall:
    """A whole tool call; ``provider_id`` may repeat or be empty."""

    name: str
    arguments: str
    provider_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole answer, the last item of every stream.

    ``server_uses``: how often the provider's own tools have run, by name; ``blocks``: see
    ``CallRound``.
    """

    text: str | None
    calls: tuple[ReplyCall, ...] = ()
    stop: Stop = Stop.DONE
    usage: Usage | None = None
    refusal: str | None = None
    server_uses: Mapping[str, int] = field(default_factory=dict)
    blocks: tuple[Json, ...] = ()


Delta = TextDelta | CallDelta


@dataclass(frozen=True, slots=True)
class Pause:
    """The answer has paused. The model is asked to go on as soon as the next item is wanted."""


class Notes(Protocol):
    """What is written down of one turn while it is asked for, before it happens."""

    async def leave_out(self, field: str) -> None:
        """The model is asked again without this field of the spec."""
        ...

    async def go_on(self) -> None:
        """The model, whose answer has paused, is asked to go on."""
        ...


class Model(Protocol):
    """A provider. Cancelling the iteration aborts the request to the provider."""

    def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """Deltas as they come, then exactly one ``Reply``. Raises ``ModelError``."""
        ...
