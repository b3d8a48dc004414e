"""The guardrails of QuietReads; runstate.yaml says where each one looks."""

import json
import re
from typing import Final

from orchestrator import Rewrite, Stop

ADDRESS: Final = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")

SPOILER: Final = re.compile(
    r"\b(the (murderer|killer|culprit) (is|was)|turns out to be|dies (at|in) the end)\b",
    re.IGNORECASE,
)

QUOTES: Final = "\"'“”«»"


def no_addresses(text: str, tool: str = "") -> Rewrite:  # noqa: ARG001 - the rule is the same for all
    """Models are not shown e-mail addresses, whoever wrote them."""
    return Rewrite(ADDRESS.sub("(an e-mail address)", text))


def plain_search(arguments: str, tool: str) -> Rewrite | None:  # noqa: ARG001
    """Models like to put titles in quotation marks, which the notes do not have."""
    try:
        given = json.loads(arguments)
        plain = given["search"].strip(QUOTES)
    except (ValueError, LookupError, AttributeError, TypeError):
        return None  # the server tells the model what is wrong with it
    if plain == given["search"]:
        return None
    return Rewrite(json.dumps({**given, "search": plain}, ensure_ascii=False))


def no_spoilers(text: str) -> Stop | None:
    """Nobody wants to be told how a book ends."""
    return Stop("I would rather not tell how a book ends.") if SPOILER.search(text) else None
