"""One request to a model, within its time limits, and what to do when it fails."""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from orchestrator.engine.speech import Speech
from orchestrator.errors import ModelError
from orchestrator.llm.protocol import Delta, Model, Reply, TurnRequest
from orchestrator.settings import Settings

FIRST_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 30.0


async def ask(
    model: Model,
    request: TurnRequest,
    speech: Speech,
    settings: Settings,
    is_held: Callable[[Delta], bool],
) -> Reply:
    """The model's reply; what it says is logged, also when it breaks off, but for what is held back
    until all of it is there. Raises ``ModelError``.
    """

    def hear(delta: Delta) -> None:
        if not is_held(delta):
            speech.hear(delta)

    try:
        try:
            return await listen(model, request, hear, settings)
        finally:
            await speech.end()
    finally:
        speech.drop()


def pause_s(failures: int, asked_s: float | None) -> float:
    """What the provider asked for, or a doubling pause; a quarter of jitter keeps engines apart."""
    if asked_s is None:
        asked_s = min(FIRST_BACKOFF_S * 2 ** (failures - 1), MAX_BACKOFF_S)
    return asked_s * random.uniform(1.0, 1.25)  # noqa: S311


async def listen(
    model: Model, request: TurnRequest, hear: Callable[[Delta], None], settings: Settings
) -> Reply:
    """The reply, within the time limits; every piece of it goes to ``hear``. Raises ``ModelError``.

    The clients' own time-outs see bytes; these see words: a server may send pings for ever.
    """
    has_begun = False
    now = asyncio.get_running_loop().time
    first_s, between_s = settings.model_first_token_timeout_s, settings.model_timeout_s
    try:
        async with (
            asyncio.timeout(settings.model_total_timeout_s) as total,
            asyncio.timeout(first_s) as silence,
            aclosing(model.stream(request)) as items,
        ):
            async for item in items:
                if isinstance(item, Reply):
                    return item
                hear(item)
                has_begun = True
                silence.reschedule(now() + between_s)
    except TimeoutError as error:
        if total.expired():
            sentence = f"did not end its answer within {settings.model_total_timeout_s:g} s"
        elif silence.expired():
            limit_s = between_s if has_begun else first_s
            sentence = f"said nothing for {limit_s:g} s"
        else:
            raise
        message = f"The model {request.spec.model} {sentence}."
        raise ModelError(message, is_retryable=True) from error
    message = f"The model {request.spec.model} ended its stream without a reply."
    raise ModelError(message, is_retryable=True)
