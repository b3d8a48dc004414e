"""Counting tokens: exactly, about, and never for long."""

import pytest

from orchestrator.conversation import Heard, Said
from orchestrator.llm.tokens import Count, count, size_bytes, weight, weight_of_tools
from tests.llm.turns import heard, tool_round


@pytest.mark.parametrize(
    ("model", "is_exact"),
    [("gpt-4o", True), ("gpt-5-mini", True), ("gpt-4", True), ("o3", True), ("claude-x", False)],
)
def test_it_says_whether_the_models_own_encoding_has_counted(model: str, is_exact: bool) -> None:
    assert count(model, "Hello, world!") == Count(4, is_exact)
    assert count(model, "") == Count(0, is_exact)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["a", " ", "_", "漢字", "a\u0301", "!?", "🍸"])
def test_text_without_borders_takes_no_longer_than_other_text(text: str) -> None:
    assert not count("gpt-4o", text * 50_000).is_exact


def test_what_wraps_texts_and_images_is_weighed_too() -> None:
    call, answer = tool_round("look", "found", '{"a": 1}')
    assert weight("gpt-4o", [heard("Hello")]) == Count(5, is_exact=True)
    assert weight("gpt-4o", [call, answer]).tokens > weight("gpt-4o", [answer]).tokens
    image = Heard(({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},))
    assert weight("gpt-4o", [image]).tokens > 500
    assert not weight("gpt-4o", [image]).is_exact
    assert weight_of_tools("gpt-4o", [{"type": "function", "function": {"name": "a"}}]) > 5


@pytest.mark.parametrize("text", ["", "Hello", "Grüße 🍸", "\x00\x01", "x" * 100])
def test_the_size_is_never_less_than_the_weight(text: str) -> None:
    items = [heard(text), *tool_round("look", text, text)]
    assert size_bytes(items) >= weight("gpt-4o", items).tokens


def test_what_only_the_provider_can_read_weighs_something_too() -> None:
    blocks = (
        {"type": "web_search_tool_result", "content": [{"encrypted_content": "x y z " * 50}]},
    )
    plain, found = Said("Yes."), Said("Yes.", (), blocks)

    assert weight("claude-x", [found]).tokens > weight("claude-x", [plain]).tokens + 100
    assert size_bytes([found]) >= weight("claude-x", [found]).tokens
