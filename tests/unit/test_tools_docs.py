"""The examples of docs/tools.md are tools, and its tables name what there is."""

import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.current import CURRENT, CurrentCall, Retry
from orchestrator.lint import Rule
from orchestrator.tools import Options, Tool

DOCUMENT = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()


def example(number: int) -> dict[str, Any]:
    """What the n-th Python block of the document defines."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)[number], names)  # noqa: S102
    return names


def test_the_first_example_is_the_tool_that_the_text_describes() -> None:
    get_price: Tool[..., Any] = example(0)["get_price"]
    assert get_price.call('{"item": "tea"}') == get_price("tea") == {"total": 3.2}
    quantity = get_price.spec.parameters["properties"]["quantity"]
    assert quantity == {"type": "integer", "default": 1, "description": "How many of them."}


def test_the_example_of_an_approval_asks_for_it() -> None:
    pay: Tool[..., Any] = example(1)["pay"]
    assert (pay.spec.approval, pay.spec.approval_timeout_s) == ("required", 120)


def test_the_example_of_a_retry_raises_it() -> None:
    names = example(2)
    call = CurrentCall("thread_1", "run_1", "call_1", "send_parcel", 1, 5, 0.0, tell=lambda _: None)
    token = CURRENT.set(call)
    assert names["send_parcel"]("Main Street 2") == "sent under call_1"
    with pytest.raises(Retry, match="busy"):
        names["send_parcel"]("Main Street 1")
    CURRENT.reset(token)


async def test_the_async_example_works() -> None:
    look_up_both: Tool[..., Any] = example(3)["look_up_both"]
    found = await look_up_both.call({"first": "a", "second": "b"})
    assert found == ["a: a word", "b: a word"]


def test_the_options_are_all_there_are() -> None:
    section = DOCUMENT.partition("## Options")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(Options.__annotations__)


def test_the_rules_of_the_lint_are_all_there_are() -> None:
    section = DOCUMENT.partition("## What a model would misread")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert re.findall(r"`([\w-]+)`", " ".join(rows)) == list(Rule)
