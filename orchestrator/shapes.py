"""The shape of a JSON value: which keys and types it has, without what stands in them. Pure.

{"author": "Le Guin", "years": [1969, 1974], "rating": null}
{author: text, rating: null, years: [number]}
"""

import json
from typing import Any, Final

from orchestrator.records import Json

LIMIT: Final = 2_000
"""Characters of a shape that are compared and kept."""

_SCALARS: Final = {str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}


def shape(text: str) -> str:
    """The shape of an output as its model reads it; what is no JSON object or list is ``text``."""
    try:
        value = json.loads(text)
        return _shape(value)[:LIMIT] if isinstance(value, dict | list) else "text"
    except (ValueError, RecursionError):
        return "text"


def _shape(value: Any) -> str:
    match value:
        case dict():
            return _of_object(value)
        case list():
            return f"[{' | '.join(sorted({_shape(item) for item in value}))}]"
        case _:
            return _SCALARS[type(value)]


def _of_object(value: Json) -> str:
    return f"{{{', '.join(f'{key}: {_shape(value[key])}' for key in sorted(value))}}}"
