"""The examples of docs/scripted-models.md play as the document says."""

import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.conversation import Item
from orchestrator.errors import ModelError
from orchestrator.llm.script import Script, ScriptedCall, ScriptedError, ScriptedUsage, Turn
from orchestrator.llm.script_reader import read_script
from orchestrator.llm.scripted import ScriptedModel
from orchestrator.settings import Settings
from tests.llm.turns import heard, played, tool_round, turn_request

DOCUMENT = Path(__file__).parents[2] / "docs" / "scripted-models.md"

EXAMPLE = re.compile(r"```(yaml|json)\n(.*?)```\n(?:(?:[^`]+\n)?\n```text\n(.*?)```)?", re.DOTALL)

LINE = re.compile(r"^(user|call|output|error|assistant): ", re.MULTILINE)

EXAMPLES = EXAMPLE.findall(DOCUMENT.read_text())


def test_the_document_has_examples_of_both_kinds() -> None:
    kinds = [kind for kind, _, transcript in EXAMPLES if transcript]
    assert kinds.count("yaml") >= 6
    assert kinds.count("json") >= 1


@pytest.mark.parametrize(("kind", "script", "transcript"), EXAMPLES)
async def test_an_example_plays_as_the_document_says(
    kind: str, script: str, transcript: str, tmp_path: Path
) -> None:
    name, opening = "scripted/inline", [heard(script)]
    if kind == "yaml":
        name, opening = "scripted/example", []
        (tmp_path / "example.yaml").write_text(script)
        assert read_script(tmp_path, "example").turns
    if transcript:
        assert await replayed(ScriptedModel(tmp_path), name, opening, transcript) == transcript


def test_the_document_lists_every_field() -> None:
    listed = set(re.findall(r"`(\w+)`", DOCUMENT.read_text()))
    for part in (Script, Turn, ScriptedCall, ScriptedUsage, ScriptedError):
        assert set(part.model_fields) - {"turns"} <= listed


async def replayed(model: ScriptedModel, name: str, items: Sequence[Item], transcript: str) -> str:
    """The transcript once more; only its user lines and outputs are taken from it."""
    _, *parts = LINE.split(transcript)
    given = [(kind, text.strip()) for kind, text in zip(parts[::2], parts[1::2], strict=True)]
    questions = [text for kind, text in given if kind == "user"]
    outputs = deque(text for kind, text in given if kind == "output")
    items = [*items, *map(heard, questions)]
    lines = [f"user: {question}" for question in questions]
    turn = failed = 0
    while failed <= Settings().model_max_retries:
        request = turn_request(name, items, turn=turn, failed_attempts=failed)
        try:
            _, reply = await played(model, request)
        except ModelError as error:
            repeated = "repeated" if error.is_retryable else "final"
            lines.append(f"error: {error.last_error_code}, {repeated}: {error}")
            failed += 1
            continue
        turn += 1
        for call in reply.calls:
            output = outputs.popleft()
            lines += [f"call: {call.name} {call.arguments}", f"output: {output}"]
            items += tool_round(call.name, output, call.arguments, f"call_{turn}")
        if not reply.calls:
            lines.append(f"assistant: {reply.text}")
            break
    return "\n".join(lines) + "\n"
