"""What a model wrote as arguments, held against the schema of a tool before anything runs."""

import json
from typing import Any

import pytest

from orchestrator.arguments import refusal

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}
ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}


def message(arguments: str, schema: dict[str, Any] = SCHEMA) -> str:
    """What the model is told."""
    text = refusal(arguments, schema)
    assert text is not None
    error = json.loads(text)["error"]
    assert (error["type"], error["retryable"]) == ("invalid_arguments", False)
    return str(error["message"])


def test_arguments_that_fit_are_not_refused() -> None:
    assert refusal('{"city": "Oslo", "days": 2, "tags": []}', SCHEMA) is None


@pytest.mark.parametrize("arguments", ["", " ", "\n", "null", " null "])
def test_nothing_means_no_arguments(arguments: str) -> None:
    assert refusal(arguments, ANYTHING) is None
    assert '"city" is a required property' in message(arguments)


def test_all_that_is_wrong_is_told_at_once_with_its_place_and_without_the_values() -> None:
    told = message('{"days": 0, "tags": ["a", 5], "colour": "very secret"}')
    for part in ("city", "days: ", "tags.1: ", "colour"):
        assert part in told
    assert "very secret" not in told


@pytest.mark.parametrize("arguments", ["[]", "5", '"null"', "true"])
def test_what_is_no_object_is_refused(arguments: str) -> None:
    assert "a JSON object is needed" in message(arguments, ANYTHING)


@pytest.mark.parametrize(
    "arguments", ["{", '{"city": ', "{'city': 'Oslo'}", '{"a": NaN}', "[" * 9999]
)
def test_what_is_no_json_is_refused(arguments: str) -> None:
    assert message(arguments, ANYTHING).startswith("The arguments are not JSON: ")


@pytest.mark.parametrize(
    "schema", [{"type": "objekt"}, {"properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}]
)
def test_a_schema_that_cannot_be_used_refuses_nothing_and_nothing_is_fetched(
    schema: dict[str, Any],
) -> None:
    assert refusal('{"a": 1}', schema) is None


def test_a_long_complaint_is_cut() -> None:
    many = json.dumps({f"key_{number}": 1 for number in range(1000)})
    assert len(message(many)) <= 2_000
