"""What would make a model choose or call a tool wrongly, found before any model sees it. Pure.

A model chooses by names and descriptions alone and writes arguments by the schema alone, so each
finding says what of these is missing, why it matters, and what better looks like.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import combinations
from typing import Any, Final

from orchestrator.records import ToolSpec


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


MIN_WORDS: Final = 5
"""A description of fewer words says what the tool is called, not when to use it."""

ALIKE: Final = 0.75
"""Two descriptions that share so much of their words leave a model to guess."""

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What all providers accept."""

NOT_STRICT: Final = _set(
    "allOf oneOf not if then else dependentRequired dependentSchemas patternProperties"
    " propertyNames unevaluatedProperties unevaluatedItems minProperties maxProperties uniqueItems"
    " contains minContains maxContains prefixItems"
)
"""Keywords that are refused with ``"strict": true``."""

READING: Final = _set(
    "calculate check count fetch find get has is list look lookup query read search show"
)
CHANGING: Final = _set(
    "add approve assign book buy cancel charge close create delete deploy disable drop edit enable"
    " execute grant insert invite issue make mark modify move order patch pay post publish purge"
    " put refund register reject remove rename replace reserve reset restart revoke save schedule"
    " send set start stop submit transfer update upload withdraw write"
)

_WORD: Final = re.compile(r"[A-Za-z0-9']+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ONE: Final = ("items", "additionalProperties")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "$defs")


class Rule(StrEnum):
    """What can be found."""

    BAD_NAME = "bad-name"
    NO_DESCRIPTION = "no-description"
    VAGUE_DESCRIPTION = "vague-description"
    UNDESCRIBED_PARAMETER = "undescribed-parameter"
    NOT_STRICT = "not-strict"
    UNDECLARED_SIDE_EFFECTS = "undeclared-side-effects"
    ALIKE = "alike"


@dataclass(frozen=True, slots=True)
class Finding:
    """One complaint about one tool: the reason, and an example of how it would be better."""

    tool: str
    rule: Rule
    reason: str
    example: str


def lint(tools: Sequence[ToolSpec]) -> list[Finding]:
    """All findings: those of each tool, in order, then those of pairs."""
    alone = [finding for spec in tools for finding in _of_one(spec)]
    return alone + [finding for pair in combinations(tools, 2) for finding in _of_pair(*pair)]


def _of_one(spec: ToolSpec) -> Iterator[Finding]:
    yield from _name(spec)
    yield from _description(spec)
    yield from _parameters(spec)
    yield from _strictness(spec)
    yield from _side_effects(spec)


def _name(spec: ToolSpec) -> Iterator[Finding]:
    if not NAME.fullmatch(spec.name):
        better = re.sub(r"[^a-zA-Z0-9_-]+", "_", spec.name).strip("_")[:64].rstrip("_")
        reason = "Providers accept names of 1 to 64 letters, digits, _ and - only."
        yield Finding(spec.name, Rule.BAD_NAME, reason, f'@tool(name="{better or "look_up"}")')


def _description(spec: ToolSpec) -> Iterator[Finding]:
    words = _words(spec.description)
    example = (
        f'"""{" ".join(_words_of_name(spec.name)).capitalize()}: what it returns, for what.'
        ' Use it when …, and not for …."""'
    )
    if not words:
        reason = "It has no description, and the description drives the selection: the docstring."
        yield Finding(spec.name, Rule.NO_DESCRIPTION, reason, example)
    elif len(words) < MIN_WORDS or set(words) <= {*_words_of_name(spec.name), "a", "an", "the"}:
        reason = (
            "The description drives the selection, and this one says no more than a name does:"
            f" {spec.description!r}."
        )
        yield Finding(spec.name, Rule.VAGUE_DESCRIPTION, reason, example)


def _parameters(spec: ToolSpec) -> Iterator[Finding]:
    for name, schema in spec.parameters.get("properties", {}).items():
        if not str(schema.get("description", "")).strip():
            reason = f"The model must guess what belongs into {name}: it has no description."
            example = f"Args: {name}: What it is, its unit or form, such as …."
            yield Finding(spec.name, Rule.UNDESCRIBED_PARAMETER, reason, example)


def _strictness(spec: ToolSpec) -> Iterator[Finding]:
    for place, schema in _schemas(spec.parameters, "arguments"):
        refused = [*sorted(NOT_STRICT & schema.keys()), *_open_ended(schema)]
        if refused:
            reason = f'Providers refuse with "strict": true, in {place}: {", ".join(refused)}.'
            example = "class Entry(BaseModel): name: str; amount: float  # and list[Entry]"
            yield Finding(spec.name, Rule.NOT_STRICT, reason, example)


def _side_effects(spec: ToolSpec) -> Iterator[Finding]:
    words = _words_of_name(spec.name)
    changing = next((word for word in words if word in CHANGING), None)
    if changing and words[0] not in READING and not spec.declares_side_effects:
        reason = (
            f'"{changing}" says that it changes something, but not whether twice does harm: a call'
            ' whose worker died is then never repeated ("once").'
        )
        example = '@tool(side_effects="idempotent"), or "once" if twice does harm'
        yield Finding(spec.name, Rule.UNDECLARED_SIDE_EFFECTS, reason, example)


def _of_pair(one: ToolSpec, other: ToolSpec) -> Iterator[Finding]:
    first, second = _words(one.description), _words(other.description)
    ratio = SequenceMatcher(None, first, second, autojunk=False).ratio()
    if first and second and ratio >= ALIKE:
        reason = (
            "The description drives the selection, and this one can hardly be told from that of"
            f" {other.name} ({ratio:.0%} the same)."
        )
        example = f'"""… Not for …: use {other.name} for these."""'
        yield Finding(one.name, Rule.ALIKE, reason, example)


def _schemas(schema: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schema and all in it, each with its place. A property may be named like a keyword."""
    if not isinstance(schema, Mapping):
        return
    yield place, schema
    for key in _ONE:
        yield from _schemas(schema.get(key), f"{place}.{key}")
    for key in _LISTED:
        for number, part in enumerate(schema.get(key, ())):
            yield from _schemas(part, f"{place}.{key}.{number}")
    for key in _NAMED:
        for name, part in schema.get(key, {}).items():
            yield from _schemas(part, f"{place}.{name}")


def _open_ended(schema: Mapping[str, Any]) -> Iterator[str]:
    """Objects with any keys, and arrays of anything."""
    if schema.get("type") == "object" and schema.get("additionalProperties", False) is not False:
        yield "an object with any keys"
    if schema.get("type") == "array" and not schema.keys() & {"items", "prefixItems"}:
        yield "an array of anything"


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _words_of_name(name: str) -> list[str]:
    return _words(_CAMEL.sub(" ", name).replace("_", " "))
