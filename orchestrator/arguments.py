"""Whether what a model wrote as the arguments of a call fits the tool's published schema. Pure."""

import json
from typing import Final

from jsonschema_rs import ValidationError, validator_for
from pydantic_core import from_json

from orchestrator.outputs import failure_text
from orchestrator.records import Json

NOTHING: Final = frozenset({"", "null"})
"""What models write when they mean no arguments at all."""


def refusal(arguments: str, schema: Json) -> str | None:
    """What the model reads instead of an output: all that is wrong, each with its place; ``None``
    when the arguments fit.

    A schema that is none itself, or that refers to another address, refuses nothing: the worker
    looks at the arguments again.
    """
    found = complaint(arguments, schema)
    return failure_text("invalid_arguments", found) if found else None


def complaint(arguments: str, schema: Json) -> str | None:
    """The same in plain words."""
    try:
        given = from_json(written(arguments), allow_inf_nan=False)
    except ValueError as error:
        return f"The arguments are not JSON: {error}."
    complaints = _complaints(given, schema)
    return "; ".join(complaints) + "." if complaints else None


def written(arguments: str) -> str:
    """The arguments as JSON; models that mean none write nothing, or ``null``."""
    text = arguments.strip()
    return "{}" if text in NOTHING else text


def _complaints(given: object, schema: Json) -> list[str]:
    """One per error, by place (``book.tags.0: …``), without the values."""
    if not isinstance(given, dict):
        return [f"arguments: a JSON object is needed, not {json.dumps(given)[:40]}"]
    try:
        validator = validator_for(schema, mask="the value", offline=True)
    except ValidationError:
        return []
    return [
        f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {error.message}"
        for error in validator.iter_errors(given)
    ]
