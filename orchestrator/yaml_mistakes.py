"""What is wrong with YAML that people have written: a sentence for each mistake, with its line."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from orchestrator.yaml_text import YamlText, written

_SENTENCES: Final[Mapping[str, str]] = {
    "extra_forbidden": "There is no such key",
    "missing": "It is missing",
    "model_type": "Input should be a valid dictionary",
}
"""In the place of pydantic's own."""

Way = tuple[int | str, ...]
Mistake = tuple[Way, str]


def mistakes(error: ValidationError, data: Any) -> list[Mistake]:
    """What pydantic has found in the data of the file."""
    details = error.errors(include_url=False, include_input=False)
    return [(_way(one["loc"], data), sentence_of(one)) for one in details]


def sentence_of(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors in words, without a full stop."""
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return _SENTENCES.get(error["type"], error["msg"])


def in_lines(path: Path, text: YamlText, found: Iterable[Mistake]) -> str:
    """A line for each, in the file's order: ``app.yaml:12: limits.max_turn: There is no …``."""
    placed = sorted((text.line(way), written(way), sentence) for way, sentence in found)
    return "\n".join(
        f"{path}:{line}: {f'{place}: ' if place else ''}{sentence.rstrip('.')}."
        for line, place, sentence in placed
    )


def _way(loc: Way, data: Any) -> Way:
    """The steps that are in the file; pydantic also names the branches of its unions."""
    way: list[int | str] = []
    for place, step in enumerate(loc):
        is_key = isinstance(data, dict) and step in data
        is_item = isinstance(data, list) and isinstance(step, int)
        if is_key or is_item:
            data = data[step]
        elif place < len(loc) - 1 or step == "[key]":
            continue
        way.append(step)
    return tuple(way)
