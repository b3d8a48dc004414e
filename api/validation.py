"""From pydantic's errors to the sentences and codes that clients of this API know.

One error is told at a time: an unknown field before all others, since a misspelt name also leaves
another one missing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from api.errors import wire_response
from orchestrator.errors import InvalidValue

Details = Mapping[str, Any]

_JSON_TYPES: Final[dict[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}

_EXPECTED: Final = {
    "string_type": "a string",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "float_type": "a decimal number",
    "bool_type": "a boolean",
}

_LONGEST_ECHO: Final = 64


async def on_validation_error(_: Request, error: Exception) -> Response:
    """For every request that does not fit its model: 400, never 422."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class
    return wire_response(invalid_value(error.errors(), error.body))


def invalid_value(found: Sequence[Details], body: Any) -> InvalidValue:
    """The error to tell, out of those that pydantic found in ``body`` (or in the query)."""
    if isinstance(body, bytes):
        return InvalidValue("Send the body as JSON, with 'Content-Type: application/json'.")
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    path = _path(first, body)
    code, sentence = _RULES.get(first["type"], _other)(path, first)
    return InvalidValue(sentence, param=path or None, code=code)


def _path(error: Details, body: Any) -> str:
    """The place of the error as clients write it: ``tools[0].function.name``.

    Pydantic's own path also names the branches of unions; they are not in the body, so the walk
    through the body leaves them out.
    """
    source, *parts = error["loc"]
    if source != "body":
        return ".".join(str(part) for part in parts)
    if parts and parts[-1] == "[key]":
        parts = parts[:-2]
    path = ""
    for index, part in enumerate(parts):
        is_absent = error["type"] == "missing" and index == len(parts) - 1
        if isinstance(part, int):
            path += f"[{part}]"
            body = body[part]
        elif is_absent or (isinstance(body, dict) and part in body):
            path += f".{part}"
            body = None if is_absent else body[part]
    if error["type"] == "union_tag_not_found":
        path += "." + error["ctx"]["discriminator"].strip("'")
    return path.removeprefix(".")


def _missing(path: str, _: Details) -> tuple[str, str]:
    what = f"Missing required parameter: '{path}'." if path else "Missing the JSON body."
    return "missing_required_parameter", what


def _unknown(path: str, _: Details) -> tuple[str, str]:
    return "unknown_parameter", f"Unknown parameter: '{path}'."


def _wrong_type(path: str, error: Details) -> tuple[str, str]:
    place = f"'{path}'" if path else "the body"
    got = _JSON_TYPES.get(type(error["input"]), "something else")
    expected = _EXPECTED[error["type"]]
    return "invalid_type", f"Invalid type for {place}: expected {expected}, but got {got} instead."


def _long_string(path: str, error: Details) -> tuple[str, str]:
    limit, text = error["ctx"]["max_length"], error["input"]
    problem = (
        f"Expected a string with maximum length {limit}, but got a string with length {len(text)}"
        " instead."
    )
    if error["loc"][-1] == "[key]":
        return "string_above_max_length", (
            f"Invalid property name in '{path}': '{text}' is too long. {problem}"
        )
    return "string_above_max_length", f"Invalid '{path}': string too long. {problem}"


def _empty_string(path: str, error: Details) -> tuple[str, str]:
    limit = error["ctx"]["min_length"]
    return "empty_string", (
        f"Invalid '{path}': empty string. Expected a string with minimum length {limit}, but got"
        " an empty string instead."
    )


def _long_collection(path: str, error: Details) -> tuple[str, str]:
    limit, actual = error["ctx"]["max_length"], len(error["input"])
    if isinstance(error["input"], dict):
        return "object_above_max_properties", (
            f"Invalid '{path}': too many properties. Expected an object with at most {limit}"
            f" properties, but got an object with {actual} properties instead."
        )
    return "array_above_max_length", (
        f"Invalid '{path}': array too long. Expected an array with maximum length {limit}, but got"
        f" an array with length {actual} instead."
    )


def _short_array(path: str, error: Details) -> tuple[str, str]:
    limit, actual = error["ctx"]["min_length"], len(error["input"])
    return "array_below_min_length", (
        f"Invalid '{path}': array too short. Expected an array with minimum length {limit}, but got"
        f" an array with length {actual} instead."
    )


def _above(path: str, error: Details) -> tuple[str, str]:
    return _out_of_range(path, error, "above maximum", "<=", error["ctx"]["le"])


def _below(path: str, error: Details) -> tuple[str, str]:
    return _out_of_range(path, error, "below minimum", ">=", error["ctx"]["ge"])


def _out_of_range(
    path: str, error: Details, which: str, sign: str, limit: float
) -> tuple[str, str]:
    kind = "decimal" if isinstance(limit, float) else "integer"
    code = f"{kind}_{which.replace('maximum', 'max').replace('minimum', 'min')}_value"
    return code.replace(" ", "_"), (
        f"Invalid '{path}': {kind} {which} value. Expected a value {sign} {limit:g}, but got"
        f" {error['input']} instead."
    )


def _unsupported(path: str, error: Details) -> tuple[str, str]:
    context = error["ctx"]
    got = context.get("tag", error["input"])
    supported = context.get("expected_tags") or context["expected"]
    echo = repr(got[:_LONGEST_ECHO]) if isinstance(got, str) else _JSON_TYPES.get(type(got))
    place = f" for '{path}'" if path else ""
    return "invalid_value", f"Invalid value{place}: {echo}. Supported values are: {supported}."


def _pattern(path: str, error: Details) -> tuple[str, str]:
    return "invalid_value", (
        f"Invalid '{path}': string does not match pattern. Expected a string that matches the"
        f" pattern '{error['ctx']['pattern']}'."
    )


def _own_rule(path: str, error: Details) -> tuple[str, str]:
    return "invalid_value", f"Invalid '{path}': {error['ctx']['error']}"


def _other(path: str, error: Details) -> tuple[str, str]:
    return "invalid_value", f"Invalid '{path}': {error['msg']}."


Rule = Callable[[str, Details], tuple[str, str]]

_WRONG_TYPES: Final[dict[str, Rule]] = dict.fromkeys(_EXPECTED, _wrong_type)

_RULES: Final[dict[str, Rule]] = _WRONG_TYPES | {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "string_too_long": _long_string,
    "string_too_short": _empty_string,
    "too_long": _long_collection,
    "too_short": _short_array,
    "less_than_equal": _above,
    "greater_than_equal": _below,
    "literal_error": _unsupported,
    "union_tag_invalid": _unsupported,
    "union_tag_not_found": _missing,
    "string_pattern_mismatch": _pattern,
    "value_error": _own_rule,
}
