"""Leaves out what a model refuses to be told, so that one assistant can be asked of many models."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

import structlog

from orchestrator.errors import ModelError
from orchestrator.llm.protocol import Delta, Model, Reply, TurnRequest

REFUSABLE: Final = {
    "reasoning_effort": ("effort", "thinking"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
}
"""Fields of the spec without which a model may be asked as well, and what refusals of them say."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Unheeded:
    """A model that is asked again without a field that it has refused."""

    model: Model

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """As the model answers; the reply names what it was not told."""
        without: tuple[str, ...] = ()
        while True:
            try:
                async with aclosing(self.model.stream(request)) as items:
                    async for item in items:
                        yield replace(item, without=without) if isinstance(item, Reply) else item
            except ModelError as error:
                field = _refused(error, request)
                if field is None:
                    raise
                log.warning(
                    "model.refused", field=field, model=request.spec.model, error=str(error)
                )
            else:
                return
            without = (*without, field)
            request = replace(request, spec=request.spec.but(**{field: None}))


def _refused(error: ModelError, request: TurnRequest) -> str | None:
    """A request that is refused as wrong has not begun to be answered."""
    if error.last_error_code != "invalid_prompt":
        return None
    words = str(error).lower()
    told = (field for field in REFUSABLE if getattr(request.spec, field) is not None)
    return next((field for field in told if any(word in words for word in REFUSABLE[field])), None)
