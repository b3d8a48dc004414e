"""Model turns for tests: what a model is asked, and all that it answers."""

from collections.abc import Iterable
from typing import Any

from orchestrator.conversation import Answered, Conversation, Heard, Item, Said
from orchestrator.llm.protocol import Delta, Model, Reply, TurnRequest
from orchestrator.records import AskedCall, RunSpec


def heard(text: str) -> Heard:
    return Heard(({"type": "text", "text": {"value": text, "annotations": []}},))


def tool_round(
    name: str, output: str, arguments: str = "{}", call_id: str = "call_a"
) -> list[Item]:
    """One call and its output."""
    asked = AskedCall(call_id=call_id, name=name, arguments=arguments)
    return [Said("", (asked,)), Answered(call_id, name, output)]


def turn_request(
    model: str,
    items: Iterable[Item] = (),
    *,
    system: str = "",
    turn: int = 0,
    failed_attempts: int = 0,
    tool_choice: Any = "auto",
    max_completion_tokens: int | None = None,
    **spec: Any,
) -> TurnRequest:
    return TurnRequest(
        run_id="run_a",
        spec=RunSpec(assistant_id="asst_a", model=model, **spec),
        conversation=Conversation(system, tuple(items)),
        turn=turn,
        failed_attempts=failed_attempts,
        tool_choice=tool_choice,
        max_completion_tokens=max_completion_tokens,
    )


async def played(model: Model, request: TurnRequest) -> tuple[list[Delta], Reply]:
    """The deltas of one turn, and the reply that must come last."""
    *deltas, reply = [item async for item in model.stream(request)]
    assert isinstance(reply, Reply)
    assert not any(isinstance(delta, Reply) for delta in deltas)
    return [delta for delta in deltas if not isinstance(delta, Reply)], reply


class Notes:
    """What a model was not told, and how often it was asked to go on."""

    def __init__(self) -> None:
        self.without: list[str] = []
        self.continuations = 0

    async def leave_out(self, field: str) -> None:
        """Write it down."""
        self.without.append(field)

    async def go_on(self) -> None:
        """Count it."""
        self.continuations += 1
