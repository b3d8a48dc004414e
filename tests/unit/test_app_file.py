"""What an app file may say, what processes make of it, and every mistake with its line."""

import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app_file.document import LIMITS, AppFile
from orchestrator.app_file.reader import AppFileInvalid, load_app, read_app_file
from orchestrator.records import Assistant, GuardPoint
from orchestrator.settings import ModelRoute, Settings

CODE = """
from orchestrator import Rewrite, tool

@tool
def ping(word: str) -> str:
    '''Say a word again.'''
    return word

def shout(text):
    return Rewrite(text.upper())

def mend(text, tool):
    return None

loud = 7
"""

WHOLE = """
tool_modules: [./shop.py]
tools:
  web_search: {type: web_search_20250305, server_side: true, max_uses: 3, options: {strict: true}}
  code: {type: code_execution_20250825, server_side: true, enabled: false}
  where_am_i: {description: Where the user is., parameters: {type: object}}
assistants:
  - name: Echo
    model: scripted/echo
    temperature: 1
    description: null
    response_format: {type: json_schema, json_schema: {name: answer, schema: {type: object}}}
    tools: [ping, web_search, code, where_am_i]
  - {name: Other, model: gpt-5}
models:
  routes:
    "gpt-*": {api: openai, key_variable: SOME_KEY}
    qwen: [{api: openai}, {api: scripted}]
  prices: {"gpt-*": {prompt: 1.25, completion: 10}}
  scripts_dir: plays
guardrails:
  - {on: input, function: "./shop.py:shout"}
  - {on: tool_output, function: "./shop.py:mend", timeout_s: 0.5, tools: [ping]}
  - {on: output, function: "./shop.py:shout", models: ["gpt-*"]}
limits: {max_turns: 3, run_ttl_s: 30}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module."""
    (tmp_path / "shop.py").write_text(CODE)
    (tmp_path / "plays").mkdir()
    return tmp_path


def app_file(folder: Path, text: str) -> Path:
    path = folder / "runstate.yaml"
    path.write_text(text)
    return path


def complaints(folder: Path, text: str) -> list[str]:
    """What is said of the text, without the file's name."""
    path = app_file(folder, text)
    with pytest.raises(AppFileInvalid) as caught:
        load_app(path)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


# -- what is right ---------------------------------------------------------------------------------


def test_assistants_are_records_with_their_tools_written_out(folder: Path) -> None:
    echo, other = load_app(app_file(folder, WHOLE)).assistants()
    parameters = {
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    }
    assert echo == {
        "name": "Echo",
        "model": "scripted/echo",
        "temperature": 1.0,
        "description": None,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}},
        },
        "tools": (
            {
                "type": "function",
                "function": {
                    "name": "ping",
                    "description": "Say a word again.",
                    "parameters": parameters,
                },
            },
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "max_uses": 3,
                "strict": True,
            },
            {
                "type": "function",
                "function": {
                    "name": "where_am_i",
                    "description": "Where the user is.",
                    "parameters": {"type": "object"},
                },
            },
        ),
    }
    assert other == {"name": "Other", "model": "gpt-5", "tools": ()}
    assert Assistant(id="asst_1", created_ms=0, **echo)


def test_a_switched_off_function_is_hidden(folder: Path) -> None:
    text = "tool_modules: [./shop.py]\ntools: {ping: {enabled: false}}\nassistants:\n"
    (echo,) = load_app(app_file(folder, text + "- {name: A, model: m, tools: [ping]}")).assistants()
    assert echo["tools"] == ()


def test_guardrails_are_functions_in_the_order_of_the_file(folder: Path) -> None:
    first, second, third = load_app(app_file(folder, WHOLE)).guardrails()
    assert (first.on, first.timeout_s) == (GuardPoint.INPUT, 2.0)
    assert (second.on, second.timeout_s) == (GuardPoint.TOOL_OUTPUT, 0.5)
    assert (first.name, second.name) == ("./shop.py:shout", "./shop.py:mend")
    assert second.tools == {"ping"}
    assert [third.is_for(model) for model in ("gpt-5", "claude-5")] == [True, False]


def test_settings_are_those_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSTATE_APP_FILE", str(app_file(folder, WHOLE)))
    settings = Settings()
    assert (settings.max_turns, settings.run_ttl_s, settings.max_tool_calls) == (3, 30, 500)
    assert settings.scripts_dir == folder / "plays"
    assert settings.model_routes["qwen"] == (
        ModelRoute(api="openai"),
        ModelRoute(api="scripted"),
    )
    assert settings.model_prices["gpt-*"].prompt == 1.25


def test_the_environment_is_stronger_than_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSTATE_APP_FILE", str(app_file(folder, WHOLE)))
    monkeypatch.setenv("RUNSTATE_MAX_TURNS", "7")
    monkeypatch.setenv("RUNSTATE_MODEL_ROUTES", '{"*": {"api": "scripted"}}')
    settings = Settings()
    assert (settings.max_turns, settings.run_ttl_s) == (7, 30)
    assert list(settings.model_routes) == ["*"]


def test_settings_import_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSTATE_APP_FILE", str(app_file(folder, "tool_modules: [no.such]")))
    assert Settings().app_file
    with pytest.raises(AppFileInvalid, match=r"no\.such cannot be imported"):
        load_app(Settings().app_file)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "tools:\n  # later\nlimits:\n"])
def test_a_file_may_say_nothing(folder: Path, text: str) -> None:
    app = load_app(app_file(folder, text))
    assert (list(app.assistants()), list(app.guardrails()), dict(app.tools)) == ([], [], {})
    assert read_app_file(app_file(folder, text)) == AppFile()


def test_without_a_file_nothing_is_said() -> None:
    assert load_app(None).file == AppFile()


def test_yes_no_and_on_are_words_and_not_truths(folder: Path) -> None:
    file = read_app_file(app_file(folder, "assistants: [{name: no, model: on}]"))
    assert (file.assistants[0].name, file.assistants[0].model) == ("no", "on")


# -- what is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("limits:\n  max_turn: 3\n", "2: limits.max_turn: There is no such key."),
        ("limits: {max_turns: 0}", "1: limits.max_turns: Input should be greater than or equal"),
        ("limits: {max_turns: '3'}", "1: limits.max_turns: Input should be a valid integer."),
        ("limit: {}", "1: limit: There is no such key."),
        ("- a", "1: Input should be a valid dictionary."),
        ("tools: [", "1: not YAML: "),
        ("tools: " + "[" * 2_000, "1: it is nested too deeply."),
        ("tools: {a: {parameters: {b: !!binary aGk=}}}", "1: not YAML: could not determine a con"),
        ("limits: {}\nlimits: {}\n", "2: not YAML: the key limits is there twice."),
        ("tools: 7", "1: tools: Input should be a valid dictionary."),
        ("tools: {1: {}}", "1: tools[1]: Input should be a valid string."),
        ("assistants:\n- model: m\n", "2: assistants[0].name: It is missing."),
        ("assistants:\n- name: A\n", "2: assistants[0].model: It is missing."),
        (
            "assistants:\n- {name: A, model: m, tools: [\n  pong]}",
            "3: assistants[0].tools[0]: There",
        ),
        (
            "assistants: [{name: A, model: m}, \n{name: A, model: m}]",
            "2: assistants[1].name: There",
        ),
        ("assistants: [{name: A, model: m, top_p: 2}]", "1: assistants[0].top_p: Input should be"),
        (
            (
                "assistants:\n- {name: A, model: m, response_format:\n"
                "    {type: json_schema, json_schema: {name: a b}}}"
            ),
            "3: assistants[0].response_format.json_schema.name: String should match",
        ),
        ("tool_modules: [no.such]", "1: tool_modules[0]: no.such cannot be imported: No module"),
        ("tool_modules: [./gone.py]", "1: tool_modules[0]: There is no file"),
        ("tools:\n  pong: {}\n", "2: tools.pong: No module has a tool pong; one of clients needs"),
        ("tools: {a: {type: web_search_20250305}}", "1: tools.a.server_side: It is missing."),
        ("tools: {a b: {parameters: {}}}", "1: tools.a b: String should match pattern"),
        (
            "tools: {a: {server_side: true, type: a}}",
            "1: tools.a.type: Input should be 'web_search",
        ),
        (
            "tools:\n  a: {server_side: true, type: web_search_20250305,\n    max_use: 1}",
            "3: tools.a.max_use: There is no such key.",
        ),
        (
            "models: {routes: {'gpt-*': {api: openai,\n  key: sk-1234}}}",
            "2: models.routes.gpt-*.key: There is no such key.",
        ),
        ("models: {prices: {a: {prompt: 1}}}", "1: models.prices.a.completion: It is missing."),
        (
            "models: {prices: {a: {prompt: -1, completion: 1}}}",
            "1: models.prices.a.prompt: Input should be greater than or equal to 0.",
        ),
        (
            "models: {routes: {a: {api: openai, key_variable: sk-1234}}}",
            "1: models.routes.a.key_variable: String should match pattern",
        ),
        ("models:\n  scripts_dir: gone\n", "2: models.scripts_dir: There is no folder "),
        ("limits: {run_ttl_s: .inf}", "1: limits.run_ttl_s: Input should be a finite number."),
        (
            "tool_modules: [./shop.py]\nassistants:\n- {name: A, model: m, tools: [ping, ping]}",
            "3: assistants[0].tools: ping is there twice.",
        ),
        (
            (
                "tools: {a: {server_side: true, type: web_search_20250305}, web_search:"
                " {parameters: {}}}\nassistants:\n- {name: A, model: m, tools: [a, web_search]}"
            ),
            "3: assistants[0].tools: To models, more than one of these is named web_search.",
        ),
        ("assistants: [{name: A, model: ''}]", "1: assistants[0].model: String should have"),
        (
            "guardrails: [{on: inputs, function: a:b}]",
            "1: guardrails[0].on: Input should be 'input",
        ),
        ("guardrails: [{on: input, function: ./shop.py}]", "1: guardrails[0].function: "),
        ("guardrails: [{on: input, function: ./shop.py:loud}]", "shop.py has no function loud."),
        ("guardrails: [{on: input, function: ./shop.py:mend}]", "must take (text)."),
        ("guardrails: [{on: tool_input, function: ./shop.py:shout}]", "must take (text, tool)."),
        (
            "guardrails: [{on: input, function: ./shop.py:shout, timeout_s: 0}]",
            "1: guardrails[0].timeout_s: Input should be greater than 0.",
        ),
        (
            "guardrails:\n- on: tool_input\n  function: ./shop.py:mend\n  tools: [pong]\n",
            "4: guardrails[0].tools[0]: There is no tool pong in tool_modules or tools.",
        ),
        (
            (
                "tool_modules: [./shop.py]\nguardrails:\n"
                "- {on: input, function: ./shop.py:shout, tools: [ping]}"
            ),
            "3: guardrails[0]: 'tools' goes with tool_input and tool_output only.",
        ),
        (
            "guardrails: [{on: input, function: ./shop.py:shout, models: [gpt-5]}]",
            "1: guardrails[0]: 'models' goes with output and tool_input only.",
        ),
        (
            "tool_modules: [./shop.py]\ntools: {ping: {description: Say it.}}",
            "2: tools.ping: What models read of ping is written in its module.",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(folder: Path, text: str, complaint: str) -> None:
    (found,) = complaints(folder, text)
    assert complaint in found


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(folder: Path) -> None:
    text = (
        "guardrails:\n- {on: input, function: './shop.py:loud'}\n- {on: later}\n"
        "assistants:\n- {name: A, model: m, tools: [ping, pong]}\n- {name: B, mode: m}\n"
        "tool_modules: [./shop.py]\nlimits: {max_turns: many}\n"
        "tools:\n  ping: {description: Again.}\n  pang: {}\nmodels: {scripts_dir: nowhere}\n"
    )
    lines = [int(found.partition(":")[0]) for found in complaints(folder, text)]
    assert lines == [2, 3, 3, 5, 6, 6, 8, 10, 11, 12]


def test_names_are_not_called_unknown_because_their_module_is(folder: Path) -> None:
    text = "tool_modules: [./gone.py]\ntools: {ping: {}}\nassistants: [{name: A, model: m}]"
    (found,) = complaints(folder, text)
    assert "gone.py" in found


@pytest.mark.parametrize(
    "code", ["raise LookupError('no shelf')", "import sys; sys.exit('no shelf')", "1 +"]
)
def test_code_that_does_not_even_load_is_a_mistake_like_others(folder: Path, code: str) -> None:
    (folder / "broken.py").write_text(code)
    (found,) = complaints(folder, "tool_modules: [./broken.py]")
    assert "cannot be imported: " in found


def test_a_secret_in_a_wrong_place_is_not_repeated(folder: Path) -> None:
    text = "models: {routes: {a: {api: sk-1234, key_variable: sk-1234}}}"
    assert "sk-1234" not in "\n".join(complaints(folder, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AppFileInvalid, match=r"gone\.yaml cannot be read: No such file"):
        load_app(tmp_path / "gone.yaml")


def test_settings_say_the_same_as_everybody_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = app_file(folder, "limits: {max_turns: 0}\ntool_modules: [no.such]")
    monkeypatch.setenv("RUNSTATE_APP_FILE", str(path))
    with pytest.raises(AppFileInvalid) as by_settings:
        Settings()
    with pytest.raises(AppFileInvalid) as by_all:
        load_app(path)
    assert str(by_settings.value) == str(by_all.value)
    assert "no.such" in str(by_settings.value)


# -- the document ----------------------------------------------------------------------------------

DOCUMENT = (Path(__file__).parents[2] / "docs" / "app-file.md").read_text()


def test_the_document_names_every_section_and_limit() -> None:
    named = set(re.findall(r"`(\w+)`", DOCUMENT))
    assert {*AppFile.model_fields, *LIMITS} <= named


def test_the_example_of_the_document_is_right(folder: Path) -> None:
    (folder / "shop").mkdir()
    block = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[0]
    parsed: Any = read_app_file(app_file(folder, block))
    assert set(AppFile.model_fields) == parsed.model_fields_set
