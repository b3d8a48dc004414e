"""The shape of an output: keys and types, nothing of what stands in them."""

import pytest

from orchestrator.shapes import LIMIT, shape


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("just words", "text"),
        ("3", "text"),
        ("{}", "{}"),
        ('{"b": 1, "a": "x"}', "{a: text, b: number}"),
        ('{"ok": true, "at": null, "n": 1.5}', "{at: null, n: number, ok: boolean}"),
        ("[]", "[]"),
        ('[1, 2, "x", 3]', "[number | text]"),
        ('[{"a": [1]}, {"a": [2]}]', "[{a: [number]}]"),
        ("[" * 100_000, "text"),
    ],
)
def test_a_shape_has_keys_and_types(text: str, wanted: str) -> None:
    assert shape(text) == wanted


def test_a_shape_is_bounded() -> None:
    keys = ", ".join(f'"key_{number}": 1' for number in range(1000))
    assert len(shape(f"{{{keys}}}")) == LIMIT
