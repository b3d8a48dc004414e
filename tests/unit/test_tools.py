"""What the ``@tool`` decorator makes of a function, and what it refuses."""

import datetime as dt
import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import orchestrator
from orchestrator import tool
from orchestrator.tools import BadArguments, Tool


class Filter(BaseModel):
    tag: str
    minimum: int = 0


@tool
def find_books(
    query: str,
    limit: int = 5,
    *,
    kind: Literal["novel", "essay"] | None = None,
    read_after: dt.date | None = None,
    filters: list[Filter] | None = None,
) -> dict[str, Any]:
    """Find books in the catalogue.

    Titles and authors are searched.

    Args:
        query (str): Words to look for,
            in any order.
        limit: How many, at most 50: fewer is quicker.

    Returns:
        The books.
    """
    return {"limit": limit, "kind": kind, "read_after": read_after, "filters": filters}


@tool(name="add-note", queue="notes", timeout_s=2.5, side_effects="idempotent", max_attempts=5)
async def add_note(text: str) -> str:
    """Keep a note.

    :param str text: What to keep.
        Plain text.
    :returns: The note's id.
    """
    return f"note: {text}"


def test_a_bare_decorator_publishes_name_description_and_defaults() -> None:
    spec = find_books.spec
    assert spec.name == "find_books"
    assert spec.description == "Find books in the catalogue.\n\nTitles and authors are searched."
    assert (spec.queue, spec.timeout_s, spec.side_effects) == ("tools", 60.0, "once")


def test_options_are_published() -> None:
    spec = add_note.spec
    assert (spec.name, spec.queue, spec.timeout_s) == ("add-note", "notes", 2.5)
    assert (spec.side_effects, spec.max_attempts) == ("idempotent", 5)


def test_the_schema_holds_types_defaults_descriptions_and_forbids_the_rest() -> None:
    schema = find_books.spec.parameters
    assert schema["type"] == "object"
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["query"] == {
        "type": "string",
        "description": "Words to look for, in any order.",
    }
    assert properties["limit"] == {
        "type": "integer",
        "default": 5,
        "description": "How many, at most 50: fewer is quicker.",
    }
    assert properties["kind"]["default"] is None
    assert {"enum": ["novel", "essay"], "type": "string"} in properties["kind"]["anyOf"]


def test_descriptions_are_read_from_param_fields() -> None:
    assert add_note.spec.description == "Keep a note."
    properties = add_note.spec.parameters["properties"]
    assert properties["text"]["description"] == "What to keep. Plain text."


def test_a_description_in_the_annotation_is_kept_and_its_limits_hold() -> None:
    @tool
    def rate(stars: Annotated[int, Field(ge=1, le=5, description="One to five.")]) -> int:
        return stars

    assert rate.spec.parameters["properties"]["stars"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 5,
        "description": "One to five.",
    }
    with pytest.raises(BadArguments, match="stars: Input should be less than or equal to 5"):
        rate.call({"stars": 6})


def test_a_function_without_parameters_has_an_empty_object_schema() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.spec.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_a_tool_is_still_its_function() -> None:
    assert find_books("tolstoy", limit=1)["limit"] == 1
    assert (find_books.__doc__ or "").startswith("Find books")
    assert (find_books.is_async, add_note.is_async) == (False, True)


def test_call_validates_and_hands_over_real_values() -> None:
    found = find_books.call(
        '{"query": "war", "limit": "3", "read_after": "2024-02-01", "filters": [{"tag": "long"}]}'
    )
    assert found["limit"] == 3
    assert found["read_after"] == dt.date(2024, 2, 1)
    assert found["filters"] == [Filter(tag="long")]
    assert find_books.call({"query": "war"})["limit"] == 5


async def test_calling_an_async_tool_gives_its_coroutine() -> None:
    coroutine = add_note.call('{"text": "x"}')
    assert inspect.iscoroutine(coroutine)
    assert await coroutine == "note: x"


@pytest.mark.parametrize("arguments", ["", "  \n", "null", " null ", "{}", {}])
def test_empty_arguments_mean_none(arguments: str | dict[str, Any]) -> None:
    @tool
    def ping(loud: bool = False) -> str:
        return "PONG" if loud else "pong"

    assert ping.call(arguments) == "pong"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("[]", "arguments: Input should be an object."),
        ("5", "arguments: Input should be an object."),
        ('"null"', "arguments: Input should be an object."),
        ('{"query": "x"', "arguments: Invalid JSON"),
        ("{}", "query: Field required."),
        ('{"query": "x", "page": 2}', "page: Extra inputs are not permitted."),
        (
            '{"query": "x", "filters": [{"tag": 1}]}',
            "filters.0.tag: Input should be a valid string",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_place(arguments: str, complaint: str) -> None:
    with pytest.raises(BadArguments) as refusal:
        find_books.call(arguments)
    assert complaint in str(refusal.value)


def test_the_complaint_does_not_repeat_the_values() -> None:
    with pytest.raises(BadArguments) as refusal:
        find_books.call('{"query": "x", "limit": "hunter2"}')
    assert "hunter2" not in str(refusal.value)


def test_parameters_may_be_named_as_no_model_field_can_be() -> None:
    @tool
    def odd(schema: str, json: int, _private: str = "", model_config: bool = True) -> str:
        return f"{schema}{json}{_private}{model_config}"

    assert set(odd.spec.parameters["properties"]) == {"schema", "json", "_private", "model_config"}
    assert odd.call('{"schema": "s", "json": 1, "_private": "p"}') == "s1pTrue"


class Opaque:
    pass


def takes_nothing() -> None: ...
def takes_any_number(*values: int) -> None: ...
def takes_any_name(**values: int) -> None: ...
def takes_by_place(value: int, /) -> None: ...
def takes_the_untyped(value) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
def takes_an_opaque(value: Opaque) -> None: ...
def takes_a_function(value: Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (takes_any_number, r"parameter \*values: int cannot be given by name"),
        (takes_any_name, r"parameter \*\*values: int cannot be given by name"),
        (takes_by_place, "parameter value: int cannot be given by name"),
        (takes_the_untyped, "parameter value needs a type hint"),
        (takes_an_opaque, "its type hints have no JSON schema"),
        (takes_a_function, "its type hints have no JSON schema"),
    ],
)
def test_signatures_without_a_schema_are_refused(
    function: Callable[..., None], sentence: str
) -> None:
    with pytest.raises(TypeError, match=f"Tool {function.__name__}: {sentence}"):
        tool(function)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "two words"}, "the name has 1 to 64"),
        ({"name": "x" * 65}, "the name has 1 to 64"),
        ({"queue": "a:b"}, "the queue has 1 to 64"),
        ({"timeout_s": 0}, "timeout_s is a number above 0"),
        ({"timeout_s": math.inf}, "timeout_s is a number above 0"),
        ({"max_attempts": 0}, "max_attempts is 1 or more"),
        ({"output_limit_bytes": 0}, "output_limit_bytes is 1 or more"),
        ({"side_effects": "some"}, "side_effects: Input should be 'none', 'idempotent' or 'once'"),
        ({"timeout": 5}, "there is no option timeout"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tool(**options)(takes_nothing)


def test_the_package_exports_the_decorator_and_nothing_that_is_not_there() -> None:
    assert isinstance(orchestrator.tool(takes_nothing), Tool)
    with pytest.raises(AttributeError, match="no attribute 'toool'"):
        orchestrator.toool  # noqa: B018
