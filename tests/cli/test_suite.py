"""The file of an evaluation: what is wrong with it is said with its line."""

from pathlib import Path

import pytest

from cli.failure import Failure
from cli.program import ROOT
from cli.suite import read_suite

WHOLE = """\
assistant: {model: scripted/echo, tools: []}
model: gpt-x
cases:
  - name: one
    input: Hello.
  - name: two
    input: [Hello., And then.]
    assistant: asst_1
    model: claude-x
    instructions: Be brief.
    outputs:
      - {tool: look_up, arguments: {day: 2026-12-01}, output: [1, 2]}
    expect:
      status: failed
      tools: [look_up, {name: measure, arguments: {deep: true}}]
      order: exact
      forbidden_tools: send_letter
      answer: {contains: a, not_contains: [b], matches: "^a", equals: {a: 1}, json_schema: {}}
      max_turns: 3
      max_tokens: 100
      max_seconds: 2.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "eval.yaml"


def wrong(file: Path, text: str) -> list[str]:
    """What is said of it, line by line."""
    file.write_text(text)
    with pytest.raises(Failure) as failure:
        read_suite(file)
    return str(failure.value).splitlines()


def test_a_single_text_stands_for_a_list_and_a_name_for_a_call(file: Path) -> None:
    file.write_text(WHOLE)
    one, two = read_suite(file).cases
    assert (one.input, two.input) == (["Hello."], ["Hello.", "And then."])
    assert [tool.name for tool in two.expect.tools] == ["look_up", "measure"]
    assert two.expect.forbidden_tools == ["send_letter"]
    assert two.outputs
    assert two.outputs[0].arguments == {"day": "2026-12-01"}
    assert (one.outputs, one.expect.status) == (None, "completed")


def test_all_that_is_wrong_is_said_at_once_with_the_lines(file: Path) -> None:
    text = WHOLE.replace("input: Hello.", "inputs: Hello.").replace("order: exact", "order: odd")
    text = text.replace('"^a"', '"("').replace("json_schema: {}", "json_schema: {type: 3}")
    text = text.replace("assistant: asst_1", "assistant: 3")
    title, *lines = wrong(file, text)
    assert title == "The suite is wrong:"
    answer = "18: cases[1].expect.answer"
    for line, told in zip(
        lines,
        [
            "4: cases[0].input: It is missing.",
            "5: cases[0].inputs: There is no such key.",
            "8: cases[1].assistant: An assistant is an id, a name, or its body.",
            "16: cases[1].expect.order: Input should be 'any', 'listed' or 'exact'.",
            f"{answer}.json_schema: This is no JSON schema: 3 is not valid under any",
            f"{answer}.matches: This is no regular expression: missing ), unterminated",
        ],
        strict=True,
    ):
        assert line.startswith(f"{file}:{told}")


def test_two_cases_of_one_name_are_told_apart_by_nobody(file: Path) -> None:
    said = wrong(file, WHOLE.replace("name: two", "name: one"))
    assert said[1:] == [
        f"{file}:4: cases[0].name: Another case has this name.",
        f"{file}:6: cases[1].name: Another case has this name.",
    ]


def test_a_case_needs_an_assistant(file: Path) -> None:
    text = WHOLE.replace("assistant: {model: scripted/echo, tools: []}\n", "")
    assert wrong(file, text)[1:] == [
        f"{file}:3: cases[0]: An assistant is needed, here or for all cases."
    ]


def test_the_suite_in_the_documents_is_one(file: Path) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    file.write_text(page.split("<!-- suite -->\n```yaml\n")[1].split("```")[0])
    (case,) = read_suite(file).cases
    assert case == read_suite(ROOT / "examples" / "quietreads" / "eval.yaml").cases[1]


@pytest.mark.parametrize("text", ["cases: [", "cases: []", "- 1", "", "a: 1\na: 2"])
def test_what_is_no_suite_is_refused(file: Path, text: str) -> None:
    assert wrong(file, text)


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(Failure, match=r"eval\.yaml cannot be read: No such file"):
        read_suite(file)
