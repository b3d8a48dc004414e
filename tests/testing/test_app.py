"""Plays with an app file: its guardrails look, its tools take part."""

from pathlib import Path

import pytest

from cli.program import EXAMPLE_APP
from orchestrator.testing.runs import Runs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without a library."""
    monkeypatch.setenv("HOME", str(tmp_path))


async def test_models_are_shown_what_the_guardrails_let_through(runs: Runs) -> None:
    turns = [{"text": "You wrote: {{ user }}"}]
    played = await runs.play(turns, message="Write to ann@example.org.", app=EXAMPLE_APP)
    assert played.answers == ("You wrote: Write to (an e-mail address).",)


async def test_a_stopped_answer_is_a_refusal(runs: Runs) -> None:
    played = await runs.play([{"text": "The murderer is the butler."}], app=EXAMPLE_APP)
    assert played.answers == ("I would rather not tell how a book ends.",)


async def test_tools_of_the_file_get_the_rewritten_arguments(runs: Runs) -> None:
    call = {"name": "get_reading_notes", "arguments": {"search": '"The Remains of the Day"'}}
    played = await runs.play([{"tool_calls": [call]}, {"text": "Done."}], app=EXAMPLE_APP)
    (made,) = played.calls
    assert made.json()["shown"] == 2
    assert made.record.asked_arguments != made.arguments
