"""The published schema of the API, and whether an answer fits it."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
from jsonschema_rs import Validator, validator_for

from tests.house.tree import ROOT
from tests.http.conformance.operations import Operation
from tests.http.conformance.recorder import Exchange

DOCUMENT: Final = ROOT.parent / "shared" / "assistants.openapi.json"

ENVELOPE: Final = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "additionalProperties": False,
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}

EMPTY_PAGE_IDS: Final = {"first_id", "last_id"}
"""The schema wants strings on an empty page too; the service sent null, and clients count on it."""


def misfits(exchanges: list[Exchange]) -> Iterator[str]:
    """What does not fit, one sentence each."""
    for exchange in exchanges:
        validator = _validator_of(exchange)
        for error in validator.iter_errors(_checked(exchange)) if validator else ():
            place = "/".join(str(part) for part in error.instance_path)
            yield f"{exchange.method} {exchange.path} {exchange.status}: {place}: {error.message}"


def _checked(exchange: Exchange) -> Any:
    body = exchange.body
    if isinstance(body, dict) and body.get("data") == []:
        return body | dict.fromkeys(EMPTY_PAGE_IDS, "")
    return body


def _validator_of(exchange: Exchange) -> Validator | None:
    if exchange.status != 200:
        return validator_for(ENVELOPE)
    return None if exchange.operation is None else _success(exchange.operation)


@cache
def _success(operation: Operation) -> Validator | None:
    """``None`` for what only Azure's SDK knows."""
    found = _document()["paths"].get(operation.path, {}).get(operation.method.lower())
    if found is None:
        return None
    schema = found["responses"]["200"]["content"]["application/json"]["schema"]
    return validator_for(
        schema | {"components": _document()["components"]}, offline=True, validate_formats=True
    )


@cache
def _document() -> dict[str, Any]:
    if not DOCUMENT.exists():
        pytest.skip(f"the published schema is not at {DOCUMENT}")
    document: dict[str, Any] = json.loads(DOCUMENT.read_text())
    return document
