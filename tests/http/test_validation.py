"""Wrong requests: the sentence, the code and the field, the same everywhere, and never 422."""

from collections import defaultdict
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from openai.types.beta import Thread

LONG = "K" * 65
FUNCTION = {"type": "function", "function": {"name": "f"}}
SEARCH = {"type": "web_search_20250305"}
NAMED_LIKE_IT = {"name": "web_search"}


def refused(response: httpx2.Response) -> tuple[str, str, str]:
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error["code"], error["param"], error["message"]


def too_long(limit: int, actual: int) -> str:
    return (
        f"string too long. Expected a string with maximum length {limit}, but got a string with"
        f" length {actual} instead."
    )


@pytest.mark.parametrize(
    ("extra", "code", "param", "message"),
    [
        (
            {"metadata": {str(n): "" for n in range(17)}},
            "object_above_max_properties",
            "metadata",
            (
                "Invalid 'metadata': too many properties. Expected an object with at most 16"
                " properties, but got an object with 17 properties instead."
            ),
        ),
        (
            {"metadata": {"k": "ü" * 513}},
            "string_above_max_length",
            "metadata.k",
            f"Invalid 'metadata.k': {too_long(512, 513)}",
        ),
        (
            {"metadata": {LONG: "v"}},
            "string_above_max_length",
            "metadata",
            (
                f"Invalid property name in 'metadata': '{LONG}' is too long. Expected a string"
                " with maximum length 64, but got a string with length 65 instead."
            ),
        ),
        (
            {"metadata": {"k": 1}},
            "invalid_type",
            "metadata.k",
            "Invalid type for 'metadata.k': expected a string, but got an integer instead.",
        ),
        (
            {"metadata": []},
            "invalid_type",
            "metadata",
            "Invalid type for 'metadata': expected an object, but got an array instead.",
        ),
        (
            {"tools": [FUNCTION] * 129},
            "array_above_max_length",
            "tools",
            (
                "Invalid 'tools': array too long. Expected an array with maximum length 128, but"
                " got an array with length 129 instead."
            ),
        ),
        (
            {"file_ids": []},
            "unknown_parameter",
            "file_ids",
            "Unknown parameter: 'file_ids'.",
        ),
        (
            {"tools": [FUNCTION, {"type": "function", "function": {"name": "f", "x": 1}}]},
            "unknown_parameter",
            "tools[1].function.x",
            "Unknown parameter: 'tools[1].function.x'.",
        ),
        (
            {"tools": [{"type": "function"}]},
            "missing_required_parameter",
            "tools[0].function",
            "Missing required parameter: 'tools[0].function'.",
        ),
        (
            {"tools": [{}]},
            "missing_required_parameter",
            "tools[0].type",
            "Missing required parameter: 'tools[0].type'.",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a.b"}}]},
            "invalid_value",
            "tools[0].function.name",
            (
                "Invalid 'tools[0].function.name': string does not match pattern. Expected a string"
                " that matches the pattern '^[a-zA-Z0-9_-]+$'."
            ),
        ),
        (
            {
                "tools": [
                    FUNCTION,
                    SEARCH,
                    FUNCTION,
                    {"type": "function", "function": NAMED_LIKE_IT},
                ]
            },
            "invalid_value",
            "tools",
            "Invalid 'tools': more than one tool is named 'f', 'web_search'.",
        ),
        (
            {"temperature": 2.5},
            "decimal_above_max_value",
            "temperature",
            (
                "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got"
                " 2.5 instead."
            ),
        ),
        (
            {"temperature": "1"},
            "invalid_type",
            "temperature",
            "Invalid type for 'temperature': expected a decimal number, but got a string instead.",
        ),
        (
            {"response_format": "yaml"},
            "invalid_value",
            "response_format",
            "Invalid value for 'response_format': 'yaml'. Supported values are: 'auto' or 'none'.",
        ),
        (
            {"name": "n" * 257},
            "string_above_max_length",
            "name",
            f"Invalid 'name': {too_long(256, 257)}",
        ),
        (
            {"model": ""},
            "empty_string",
            "model",
            (
                "Invalid 'model': empty string. Expected a string with minimum length 1, but got an"
                " empty string instead."
            ),
        ),
    ],
)
async def test_a_wrong_field_of_an_assistant_is_named(
    http: httpx2.AsyncClient, extra: dict[str, Any], code: str, param: str, message: str
) -> None:
    response = await http.post("/v1/assistants", json={"model": "m", **extra})
    assert refused(response) == (code, param, message)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"role": "user"}, "missing_required_parameter", "content"),
        ({"role": "system", "content": "x"}, "invalid_value", "role"),
        ({"role": "user", "content": 5}, "invalid_type", "content"),
        ({"role": "user", "content": []}, "array_below_min_length", "content"),
        ({"role": "user", "content": "x" * 256_001}, "string_above_max_length", "content"),
        (
            {"role": "user", "content": [{"type": "text", "text": {"value": "x"}}]},
            "invalid_type",
            "content[0].text",
        ),
        (
            {"role": "user", "content": [{"type": "sound"}]},
            "invalid_value",
            "content[0]",
        ),
        (
            {"role": "user", "content": "x", "file_ids": []},
            "unknown_parameter",
            "file_ids",
        ),
    ],
)
async def test_a_wrong_field_of_a_message_is_named(
    http: httpx2.AsyncClient, thread: Thread, body: dict[str, Any], code: str, param: str
) -> None:
    response = await http.post(f"/v1/threads/{thread.id}/messages", json=body)
    assert refused(response)[:2] == (code, param)
    within = await http.post("/v1/threads", json={"messages": [body]})
    assert refused(within)[:2] == (code, f"messages[0].{param}")


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_required_parameter", "assistant_id"),
        ({"assistant_id": 1}, "invalid_type", "assistant_id"),
        ({"assistant_id": "a", "model": ""}, "empty_string", "model"),
        (
            {"assistant_id": "a", "max_prompt_tokens": 255},
            "integer_below_min_value",
            "max_prompt_tokens",
        ),
        (
            {"assistant_id": "a", "parallel_tool_calls": "yes"},
            "invalid_type",
            "parallel_tool_calls",
        ),
        ({"assistant_id": "a", "tools": [FUNCTION] * 21}, "array_above_max_length", "tools"),
        ({"assistant_id": "a", "tool_choice": "any"}, "invalid_value", "tool_choice"),
        (
            {"assistant_id": "a", "truncation_strategy": {"type": "all"}},
            "invalid_value",
            "truncation_strategy.type",
        ),
        ({"assistant_id": "a", "assistant": "a"}, "unknown_parameter", "assistant"),
    ],
)
async def test_a_wrong_field_of_a_run_is_named(
    http: httpx2.AsyncClient, thread: Thread, body: dict[str, Any], code: str, param: str
) -> None:
    for path in (f"/v1/threads/{thread.id}/runs", "/v1/threads/runs"):
        assert refused(await http.post(path, json=body))[:2] == (code, param)


@pytest.mark.parametrize("path", ["", "/runs/run_0", "/messages/msg_0"])
async def test_metadata_is_checked_wherever_it_is_changed(
    http: httpx2.AsyncClient, thread: Thread, path: str
) -> None:
    url = f"/v1/threads/{thread.id}{path}"
    for value in (1, True, None, {"a": "b"}):
        response = await http.post(url, json={"metadata": {"k": value}})
        assert refused(response)[:2] == ("invalid_type", "metadata.k")


async def test_a_misspelt_field_is_told_before_the_one_that_it_leaves_missing(
    http: httpx2.AsyncClient,
) -> None:
    response = await http.post("/v1/threads/t/runs/r/submit_tool_outputs", json={"tool_output": []})
    assert refused(response)[:2] == ("unknown_parameter", "tool_output")


async def test_null_stands_for_the_default_in_a_run(
    http: httpx2.AsyncClient, thread: Thread
) -> None:
    made = await http.post("/v1/assistants", json={"model": "m", "temperature": None})
    body = {
        "assistant_id": made.json()["id"],
        "stream": None,
        "temperature": None,
        "top_p": None,
        "tools": None,
        "tool_choice": None,
        "metadata": None,
        "truncation_strategy": None,
        "max_prompt_tokens": None,
        "additional_messages": None,
        "response_format": None,
    }
    response = await http.post(f"/v1/threads/{thread.id}/runs", json=body)
    assert response.status_code == 200
    run = response.json()
    assert (run["tool_choice"], run["temperature"], run["metadata"]) == ("auto", 1.0, {})
    assert run["truncation_strategy"] == {"type": "auto", "last_messages": None}


async def test_a_field_that_nobody_knows_is_named_by_every_operation_that_takes_a_body(
    http: httpx2.AsyncClient, app: FastAPI
) -> None:
    taking = [
        path.format_map(defaultdict(lambda: "x"))
        for path, operations in app.openapi()["paths"].items()
        if "requestBody" in operations.get("post", {}) and path.startswith("/v1/")
    ]
    assert len(taking) > 12
    for path in taking:
        response = await http.post(path, json={"strange": 1})
        assert refused(response)[:2] == ("unknown_parameter", "strange"), path
