"""Leaves out what a model refuses to be told, so that one assistant can be asked of many models."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from orchestrator.errors import ModelError
from orchestrator.llm.protocol import Delta, Notes, Pause, Reply, TurnRequest

REFUSABLE: Final = {
    "reasoning_effort": ("effort", "thinking"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
}
"""Fields of the spec without which a model may be asked as well, and what refusals of them say."""

log = structlog.get_logger(__name__)


class Pausing(Protocol):
    """A model whose answers may pause."""

    def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Pause | Reply]: ...


class Unnoted:
    """Notes that nobody takes."""

    async def leave_out(self, field: str) -> None:
        """Write nothing down."""

    async def go_on(self) -> None:
        """Write nothing down."""


@dataclass(frozen=True, slots=True)
class Unheeded:
    """A model that is asked again without a field that it has refused. What is sent beside the
    first request is in the ``notes`` before it is sent.
    """

    model: Pausing
    notes: Notes

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """As the model answers."""
        has_begun = False
        while True:
            try:
                async with aclosing(self.model.stream(request)) as items:
                    async for item in items:
                        has_begun = True
                        if isinstance(item, Pause):
                            await self.notes.go_on()
                        else:
                            yield item
            except ModelError as error:
                field = _refused(error, request)
                if has_begun or field is None:
                    raise
                log.warning(
                    "model.refused", field=field, model=request.spec.model, error=str(error)
                )
            else:
                return
            await self.notes.leave_out(field)
            request = replace(request, spec=request.spec.but(**{field: None}))


def _refused(error: ModelError, request: TurnRequest) -> str | None:
    """The field that the model does not want to be told, if it is one."""
    if error.last_error_code != "invalid_prompt":
        return None
    words = str(error).lower()
    told = (field for field in REFUSABLE if getattr(request.spec, field) is not None)
    return next((field for field in told if any(word in words for word in REFUSABLE[field])), None)
