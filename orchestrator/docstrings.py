"""What a docstring tells a model: the description, and a text for each parameter.

Read are Google's ``Args:`` sections and ``:param name:`` fields; other sections are for people.
"""

import inspect
import re
from dataclasses import dataclass, field
from typing import Final

_SECTION: Final = re.compile(
    r"(args|arguments|parameters|returns?|raises|yields?|examples?|notes?):$", re.IGNORECASE
)
_PARAMETERS: Final = {"args", "arguments", "parameters"}
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_FIELD: Final = re.compile(r":(\w+)([^:]*):\s*(.*)")


@dataclass(slots=True)
class Docstring:
    """The parts of a docstring that models read."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse(text: str | None) -> Docstring:
    """The description (everything before the first section) and the parameters' texts."""
    lines = inspect.cleandoc(text or "").splitlines()
    end = next((i for i, line in enumerate(lines) if _begins_section(line)), len(lines))
    return Docstring("\n".join(lines[:end]).strip(), _parameters(lines[end:]))


def _begins_section(line: str) -> bool:
    return bool(_SECTION.match(line) or _FIELD.match(line))


def _parameters(lines: list[str]) -> dict[str, str]:
    """Texts by name. A line that is indented deeper than its entry goes on with it."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    is_listing, entry_indent = False, 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if section := _SECTION.match(line):
            is_listing, entry_indent, current = section[1].lower() in _PARAMETERS, 0, []
        elif mark := _FIELD.match(line):
            is_listing, entry_indent = False, 0
            current = found.setdefault(mark[2].split()[-1], [mark[3]]) if _names(mark) else []
        elif is_listing and line.strip() and indent and indent <= (entry_indent or indent):
            entry = _ENTRY.match(line.strip())
            entry_indent = indent
            current = found.setdefault(entry[1], [entry[2]]) if entry else []
        elif line.strip():
            current.append(line.strip())
    return {name: " ".join(filter(None, texts)) for name, texts in found.items()}


def _names(mark: re.Match[str]) -> bool:
    """Whether this field is about a parameter: ``:param x:`` or ``:param int x:``."""
    return mark[1] in {"param", "parameter", "arg", "argument"} and bool(mark[2].strip())
