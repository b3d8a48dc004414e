"""References to earlier outputs, and what a script from a message may not do."""

import time
from typing import Any

import pytest

from orchestrator.conversation import Conversation
from orchestrator.errors import ModelError
from orchestrator.llm.templates import LOOKUP_LIMIT_CHARS, RENDERED_LIMIT_CHARS, Renderer
from tests.llm.turns import heard, tool_round

BOOKS = '{"items": [{"id": 7, "title": "Emma"}, {"id": 9, "title": "Ulysses"}], "keys": null}'

CONVERSATION = Conversation(
    "",
    (
        heard("An older question"),
        *tool_round("find", "old"),
        heard("What shall I read?"),
        *tool_round("find", BOOKS),
        *tool_round("get-user", "Ada {{ user }}"),
        *tool_round("count", "12"),
        *tool_round("ratio", '{"r": NaN}'),
        *tool_round("big", '"' + "x" * 100_000 + '"'),
    ),
)


def from_file() -> Renderer:
    return Renderer(CONVERSATION, may_compute=True)


def from_message() -> Renderer:
    return Renderer(CONVERSATION, may_compute=False)


def refusal(template: str, renderer: Renderer | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        (renderer or from_message()).text(template)
    assert not caught.value.is_retryable
    return str(caught.value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ user }}", "What shall I read?"),
        ("{{ outputs.find.items[1].title }}!", "Ulysses!"),
        ("{{ outputs.find['items'][0] }}", '{"id": 7, "title": "Emma"}'),
        ("{{ outputs.find.keys }}", "null"),
        ("{{ outputs['get-user'] }}", "Ada {{ user }}"),
        ("{{ calls[0] }} {{ calls[3] }} {{ calls[-2].r }}", None),
        ("{{ calls[0] }} {{ calls[-3] }}", "old 12"),
        ("{{ outputs.ratio }}", '{"r": NaN}'),
        ("a\n{{ outputs.count }}\n", "a\n12\n"),
    ],
)
def test_earlier_outputs_and_the_question_can_be_named(template: str, text: str | None) -> None:
    for renderer in (from_file(), from_message()):
        if text is None:
            assert "has no attribute 'r'" in refusal(template, renderer)
        else:
            assert renderer.text(template) == text


@pytest.mark.parametrize("text", ["", "plain", "{% if x %}", "{# no #}", "50 % {", "}}"])
def test_a_text_without_a_reference_is_left_alone(text: str) -> None:
    assert from_message().text(text) == text
    assert from_message().value({"a": [text]}) == {"a": [text]}


def test_within_arguments_a_lone_reference_keeps_its_type() -> None:
    arguments = {
        "id": "{{ outputs.find.items[0].id }}",
        "all": ["{{ outputs.find.items }}", "No. {{ outputs.count }}"],
        "n": 3,
    }
    assert from_message().value(arguments) == {
        "id": 7,
        "all": [[{"id": 7, "title": "Emma"}, {"id": 9, "title": "Ulysses"}], "No. 12"],
        "n": 3,
    }


def test_files_may_compute() -> None:
    loop = "{% for book in outputs.find.items %}\n{{ loop.index }}. {{ book.title }}\n{% endfor %}"
    assert from_file().text(loop) == "1. Emma\n2. Ulysses\n"
    assert from_file().value("{{ outputs.count * 2 }}") == 24
    assert from_file().text("{{ outputs.find.items | map(attribute='id') | list }}") == "[7, 9]"


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in calls %}{{ a }}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ user | upper }}",
        "{{ range(9) }}",
        "{{ user.upper() }}",
        "{{ [user] }}",
        "{{ user ~ user }}",
        "{{ user if user }}",
        "{% set a = user %}{{ a }}",
        "{% macro a() %}{{ user }}{% endmacro %}",
        "{% include user %}{{ user }}",
        "{{ a" + ".b" * 21 + " }}",
        "{{ " + "(" * 5000 + "user" + ")" * 5000 + " }}",
        "{{ " + "a[" * 1500 + "0" + "]" * 1500 + " }}",
        "{{ user }}" * (LOOKUP_LIMIT_CHARS // 10 + 1),
        "{{ user }}" * 1_000_000,
    ],
)
def test_messages_may_only_look_things_up_and_are_refused_at_once(template: str) -> None:
    began_s = time.perf_counter()
    for renderer in (from_message(), from_message()):
        with pytest.raises(ModelError) as caught:
            renderer.value({"a": template})
        assert caught.value.last_error_code == "invalid_prompt"
    assert time.perf_counter() - began_s < 20


@pytest.mark.parametrize(
    "template",
    [
        "{{ user.__class__ }}",
        "{{ outputs.__class__.__mro__ }}",
        "{{ calls.__init__.__globals__ }}",
        "{{ outputs.find.items.append }}",
        "{{ calls.append }}",
        "{{ user.format }}",
    ],
)
def test_nothing_but_data_can_be_reached(template: str) -> None:
    refusal(template, from_message())
    refusal(template, from_file())
    with pytest.raises(ModelError):
        from_file().value(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{",
        "{{ }}",
        "{{ user ",
        "{{ 1 / 0 }}",
        "{{ user + 1 }}",
        "{{ outputs | no_such_filter }}",
        "{{ calls.append(1) }}",
        "{{ lipsum }}",
        "{{ range(999999) | list }}",
        "{{ {1, 2} }}",
    ],
)
def test_a_wrong_template_of_a_file_is_a_clear_failure(template: str) -> None:
    assert "cannot be filled in" in refusal(template, from_file())
    with pytest.raises(ModelError) as caught:
        from_file().value([template])
    assert caught.value.last_error_code == "server_error"


def test_a_missing_output_is_named_with_those_that_are_there() -> None:
    sentence = refusal("It is {{ outputs.weather.celsius }}.")
    assert "no attribute 'weather'" in sentence
    assert "tools with outputs so far: find, get-user, count" in sentence


@pytest.mark.parametrize("may_compute", [True, False])
def test_what_a_turn_renders_is_bounded(may_compute: bool) -> None:
    big = "{{ outputs.big }}"
    for attempt in (
        lambda renderer: renderer.text(f"{big} {big} {big}"),
        lambda renderer: [renderer.text(f"{big}.") for _ in range(3)],
        lambda renderer: renderer.value([big] * 3),
    ):
        with pytest.raises(ModelError, match=str(RENDERED_LIMIT_CHARS)):
            attempt(Renderer(CONVERSATION, may_compute=may_compute))


def test_outputs_are_data_and_never_templates() -> None:
    hostile: Any = tool_round("find", "{{ 1 / 0 }}")
    renderer = Renderer(Conversation("", hostile), may_compute=True)
    assert renderer.text("{{ outputs.find }}") == "{{ 1 / 0 }}"
    assert renderer.value("{{ outputs.find }}") == "{{ 1 / 0 }}"
