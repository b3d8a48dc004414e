"""What a model reads after a tool: the value as text, within the size rule, or an error as JSON.

The size rule: an output of more bytes than its tool's limit is shown in part, as a JSON object that
says so: ``{"truncated": true, "shown_bytes": 32768, "total_bytes": 5000000, "text": "…"}``.
"""

import json
from typing import Final

from pydantic_core import to_jsonable_python

from orchestrator.decide.calls import error_text
from orchestrator.llm.surrogates import whole

KEPT_LIMIT_BYTES: Final = 1_000_000
"""So much of an output is kept to be read by people, however little of it the model is shown."""

MESSAGE_LIMIT: Final = 2_000
"""Characters of an error's message: enough to act on, however much an exception has to say."""


class NoJson(ValueError):
    """The value has no JSON form."""


def output_text(value: object) -> str:
    """A tool's value as text. A string passes as it is, anything else becomes compact JSON.

    Models, dataclasses, dates, sets and the like take the form that pydantic gives them. Raises
    ``NoJson`` for what has none: NaN, infinity, bytes that are not UTF-8, a circle, a socket.
    """
    return whole(value if isinstance(value, str) else _compact(value))


def within(text: str, limit_bytes: int) -> str:
    """The text, or as much of it as the size rule allows, cut between characters."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    shown = data[:limit_bytes].decode(errors="ignore")
    cut = {
        "truncated": True,
        "shown_bytes": len(shown.encode()),
        "total_bytes": len(data),
        "text": shown,
    }
    return json.dumps(cut, ensure_ascii=False)


def failure_text(kind: str, message: str, *, is_retryable: bool = False) -> str:
    """An error as models read it, with a message of bounded length and whole characters."""
    return error_text(kind, whole(message)[:MESSAGE_LIMIT], is_retryable=is_retryable)


def _compact(value: object) -> str:
    try:
        plain = to_jsonable_python(value)
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise NoJson(f"A value of type {type(value).__name__} has no JSON form: {error}") from None
