"""How a tool's value becomes the text that a model reads."""

import dataclasses
import datetime as dt
import enum
import io
import json
import math
from typing import Any

import pytest
from pydantic import BaseModel

from orchestrator.outputs import MESSAGE_LIMIT, NoJson, failure_text, output_text, within


class Book(BaseModel):
    title: str
    due: dt.date


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Colour(enum.Enum):
    RED = "red"


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is, {even} this", "as it is, {even} this"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": [1, 2]}, '{"a":[1,2]}'),
        ({"ж": "ü"}, '{"ж":"ü"}'),
        (Book(title="t", due=dt.date(2024, 1, 2)), '{"title":"t","due":"2024-01-02"}'),
        (Point(1, {"a"}), '{"x":1,"tags":["a"]}'),
        (Colour.RED, '"red"'),
        ({dt.date(2024, 1, 2): (1, 2)}, '{"2024-01-02":[1,2]}'),
        (b"bytes", '"bytes"'),
        ((n for n in range(3)), "[0,1,2]"),
    ],
)
def test_strings_pass_and_the_rest_becomes_compact_json(value: object, text: str) -> None:
    assert output_text(value) == text


def circle() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        [math.inf],
        b"\xff",
        object(),
        Unspeakable(),
        circle(),
        {"file": io.open},
        {"\ud800": 1},
    ],
)
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(NoJson, match="has no JSON form"):
        output_text(value)


def test_lone_surrogates_are_replaced_and_nul_is_kept() -> None:
    assert output_text("a\ud800b\0c\ud83d\ude00") == "a\ufffdb\0c\U0001f600"
    assert output_text({"k": "\udfff"}) == '{"k":"\ufffd"}'


def test_a_text_within_the_limit_is_whole() -> None:
    assert within("ü" * 5, 10) == "ü" * 5


def test_a_text_over_the_limit_is_cut_between_characters_and_says_so() -> None:
    cut = json.loads(within("ü" * 6, 11))
    assert cut == {"truncated": True, "shown_bytes": 10, "total_bytes": 12, "text": "ü" * 5}


def test_five_megabytes_are_shown_in_part() -> None:
    text = within(output_text({"data": "x" * 5_000_000}), 32_768)
    assert json.loads(text)["total_bytes"] == 5_000_011
    assert len(text) < 40_000


def test_errors_are_json_with_a_bounded_message() -> None:
    error = json.loads(failure_text("exception", "boom \ud800" + "x" * 10_000))["error"]
    assert error["type"] == "exception"
    assert error["retryable"] is False
    assert error["message"].startswith("boom \ufffdx")
    assert len(error["message"]) == MESSAGE_LIMIT
