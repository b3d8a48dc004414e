"""How a model call ends, from the words of chat completions into ours.

The OpenAI-compatible adapter and the scripted models share these rules, so that a test with a
scripted model sees what the real provider would bring about.
"""

from typing import Final, TypeGuard

from orchestrator.commands import Stop
from orchestrator.errors import ModelError

TRANSIENT_STATUSES: Final = frozenset({408, 409})
"""Statuses below 500 that the official SDK repeats as well: time-out, lock conflict."""

BAD_PROMPT_STATUSES: Final = frozenset({400, 413, 422})

STOPS: Final = {
    "length": Stop.LENGTH,
    "content_filter": Stop.FILTER,
}


def stop_for(finish_reason: str | None, *, has_calls: bool) -> Stop:
    """Why the model stopped. Apart from the two limits, only the calls count: a forced tool choice
    ends with ``stop`` although there are calls, and some servers say nothing at all.
    """
    return STOPS.get(finish_reason or "", Stop.TOOLS if has_calls else Stop.DONE)


def failure_for(status: int, message: str, retry_after_s: float | None = None) -> ModelError:
    """The error that an HTTP status means.

    429 is ``rate_limit_exceeded``; 400, 413 and 422 are ``invalid_prompt``; all else is
    ``server_error``. Worth repeating are 408, 409, 429 and everything from 500 on.
    """
    if status == 429:
        return ModelError(
            message,
            last_error_code="rate_limit_exceeded",
            is_retryable=True,
            retry_after_s=retry_after_s,
        )
    if status in BAD_PROMPT_STATUSES:
        return ModelError(message, last_error_code="invalid_prompt")
    return ModelError(
        message,
        is_retryable=status >= 500 or status in TRANSIENT_STATUSES,
        retry_after_s=retry_after_s,
    )


def is_tokens(count: object) -> TypeGuard[int]:
    """Whether this can be a number of tokens. Some servers send -1 for what they do not know."""
    return type(count) is int and 0 <= count < 1_000_000_000
