"""The format of scripts: which entry answers which attempt, and what is refused where."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.conversation import Conversation, Said
from orchestrator.errors import ModelError
from orchestrator.llm.script import Script, Turn
from orchestrator.llm.script_reader import find_script, read_script
from tests.llm.turns import heard


def texts(*turns: dict[str, Any], attempts: int = 6) -> list[str | None]:
    """What the first attempts of a run are answered with."""
    script = Script.model_validate({"turns": list(turns)})
    return [script.at(position).text for position in range(attempts)]


def inline(*messages: str) -> Script:
    return find_script(Conversation("", tuple(map(heard, messages))))


def written(folder: Path, text: str, name: str = "play") -> Script:
    (folder / f"{name}.yaml").write_text(text)
    return read_script(folder, name)


def complaint_about(folder: Path, text: str) -> str:
    with pytest.raises(ModelError) as caught:
        written(folder, text)
    assert caught.value.last_error_code == "server_error"
    assert not caught.value.is_retryable
    return str(caught.value)


def test_each_attempt_plays_the_next_entry_and_past_the_end_it_is_done() -> None:
    assert texts({"text": "a"}, {"text": "b"}, attempts=4) == ["a", "b", "done", "done"]
    assert texts(attempts=1) == ["done"]


def test_an_entry_stands_for_as_many_attempts_as_it_says() -> None:
    error = {"status": 500, "message": "no"}
    for failing in ({"error": error, "times": 2}, {"error": error | {"times": 2}}):
        assert texts(failing, {"text": "a"}, attempts=4) == [None, None, "a", "done"]


def test_an_entry_that_repeats_is_never_passed() -> None:
    assert texts({"text": "a"}, {"text": "b", "repeat": True}, {"text": "c"}) == ["a"] + ["b"] * 5


def test_a_file_and_a_message_have_the_same_format(tmp_path: Path) -> None:
    turns = [
        {"text": "a", "delay_s": 1, "chunk_delay_s": 0.5, "finish_reason": "length"},
        {"tool_calls": [{"name": "add", "arguments": {"a": [1, None, {"b": 1.5}]}}]},
        {"tool_calls": [{"name": "add", "arguments": "{"}, {"name": "now"}]},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        {"error": {"status": 429, "message": "slow"}, "repeat": True},
    ]
    text = json.dumps({"turns": turns})

    assert written(tmp_path, text) == inline(text) == Script.model_validate({"turns": turns})


def test_dates_in_yaml_stay_text(tmp_path: Path) -> None:
    script = written(tmp_path, "turns: [{tool_calls: [{name: a, arguments: {day: 2026-12-01}}]}]")
    assert script.turns[0].tool_calls[0].arguments == {"day": "2026-12-01"}


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert written(tmp_path, "turns: [{text: a}]").turns == [Turn(text="a")]
    assert written(tmp_path, "turns: [{text: again}]").turns == [Turn(text="again")]


def test_the_newest_message_that_is_a_script_is_played() -> None:
    old, new = '{"turns": [{"text": "old"}]}', ' {"turns": [{"text": "new"}]}\n'
    others = ["What now?", '{"turns": 3}', "[1]", '{"turns": [', '{"a": 1}', ""]

    assert inline(old, new, *others).turns == [Turn(text="new")]


def test_what_the_model_said_is_no_script() -> None:
    with pytest.raises(ModelError, match="this thread has none") as caught:
        find_script(Conversation("", (Said('{"turns": []}'), heard("Hello"))))
    assert caught.value.last_error_code == "invalid_prompt"


@pytest.mark.parametrize(
    ("turn", "place"),
    [
        ('{"txt": "a"}', "turns[0].txt: There is no such key."),
        ('{"text": 5}', "turns[0].text: Input should be a valid string"),
        ('{"delay_s": "1"}', "turns[0].delay_s:"),
        ('{"delay_s": -1}', "turns[0].delay_s:"),
        ('{"times": 0}', "turns[0].times:"),
        ('{"repeat": 1}', "turns[0].repeat:"),
        ('{"error": {"message": "no"}}', "turns[0].error.status: It is missing"),
        ('{"error": {"status": 200}}', "turns[0].error.status:"),
        ('{"finish_reason": "done"}', "turns[0].finish_reason:"),
        ('{"tool_calls": [{"arguments": {}}]}', "turns[0].tool_calls[0].name: It is missing"),
        (
            '{"tool_calls": [{"name": "a", "arguments": [1]}]}',
            "turns[0].tool_calls[0].arguments: Must be an object, or a string that is sent raw.",
        ),
        ('{"usage": {"prompt_tokens": -1}}', "turns[0].usage.prompt_tokens:"),
        ('"a"', "turns[0]:"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(turn: str, place: str) -> None:
    with pytest.raises(ModelError) as caught:
        inline(f'{{"turns": [{turn}]}}')
    assert place in str(caught.value)
    assert caught.value.last_error_code == "invalid_prompt"


def test_in_a_file_the_line_is_named(tmp_path: Path) -> None:
    text = "turns:\n  - text: a\n  - tool_calls:\n      - name: b\n        argument: {}\n"
    assert (
        "play.yaml: line 5, turns[1].tool_calls[0].argument: There is no such key."
        in complaint_about(tmp_path, text)
    )
    missing = "turns:\n  - text: a\n  - error:\n      message: no\n"
    assert "line 3, turns[1].error.status: It is missing" in complaint_about(tmp_path, missing)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("turns: [", "play.yaml: line 1, not YAML: expected the node content"),
        ("turns: []\nturns: []", "play.yaml: line 2, not YAML: the key turns is there twice"),
        ("turns: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("", "play.yaml: line 1, the whole:"),
        ("- text: a", "play.yaml: line 1, the whole:"),
        ("turns: [{text: a, text2: b, text3: c}]", "(and 1 more)"),
        ("turns: [{tool_calls: [{name: a, arguments: {1: b}}]}]", "arguments"),
        ("turns: [{tool_calls: [{name: a, arguments: {b: .inf}}]}]", "arguments"),
        ("turns: [{tool_calls: [{name: a, arguments: &a {b: *a}}]}]", "arguments"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaint in complaint_about(tmp_path, text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "play.yaml").write_bytes(b"turns: [{text: \xff\xfe}]")
    with pytest.raises(ModelError, match="not YAML"):
        read_script(tmp_path, "play")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"play\.yaml cannot be read .*No such file"):
        read_script(tmp_path, "play")


def test_without_a_folder_the_setting_is_named() -> None:
    with pytest.raises(ModelError, match="RUNSTATE_SCRIPTS_DIR"):
        read_script(None, "play")


@pytest.mark.parametrize("name", ["../play", "a/b", "..", ".hidden", "", "a\x00b", "play\n", "ü"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "play.yaml").write_text("turns: []")
    with pytest.raises(ModelError, match="a script's name has only"):
        read_script(tmp_path / "scripts", name)


def test_a_name_of_any_length_is_answered(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_script(tmp_path, "x" * 5000)
