"""The examples of docs/guardrails.md are guardrails, and do what the text says."""

import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Rewrite, Stop
from orchestrator.app_file.document import GuardrailEntry
from orchestrator.app_file.reader import read_app_file
from orchestrator.records import GuardPoint

DOCUMENT = (Path(__file__).parents[2] / "docs" / "guardrails.md").read_text()


@pytest.fixture
def functions() -> dict[str, Any]:
    """What the Python block of the document defines."""
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)[0], names)  # noqa: S102
    return names


def test_the_functions_rewrite_and_stop(functions: dict[str, Any]) -> None:
    found = functions["no_card_numbers"]("Mine is 1234123412341234.")
    assert found == Rewrite("Mine is (a card number).")
    assert isinstance(functions["small_refunds"]('{"amount": 101}', "refund"), Stop)
    assert functions["small_refunds"]('{"amount": 100}', "refund") is None


def test_the_app_file_names_these_functions(functions: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "runstate.yaml"
    path.write_text(re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[0])
    entries: list[GuardrailEntry] = read_app_file(path).guardrails
    assert {entry.function.partition(":")[2] for entry in entries} < set(functions)


def test_every_place_where_rules_look_is_explained() -> None:
    assert re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE) == ["on", *GuardPoint]
