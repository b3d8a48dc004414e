"""Tools that the model's provider runs itself, such as its web search. Pure.

They are declared in the provider's own words, ``{"type": "web_search_20250305", "name":
"web_search", "max_uses": 3}``, and never enter our ledger. Providers count ``max_uses`` for each
request; here it counts for the whole run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from orchestrator.records import Json

ServerToolType = Literal[
    "web_search_20250305",
    "web_search_20260209",
    "web_search_20260318",
    "web_fetch_20250910",
    "web_fetch_20260209",
    "web_fetch_20260309",
    "web_fetch_20260318",
    "code_execution_20250522",
    "code_execution_20250825",
    "code_execution_20260120",
    "code_execution_20260521",
]
"""Those of anthropic 2.14 that need nothing from us."""


def server_tools(tools: Iterable[Json]) -> tuple[Json, ...]:
    """Those of a run's tools that its provider must run."""
    return tuple(tool for tool in tools if tool.get("type") in get_args(ServerToolType))


def name_of(tool: Json) -> str:
    """What the model calls it: the type without its date."""
    kind, _, _ = str(tool["type"]).rpartition("_")
    return kind


def named_twice(tools: Sequence[Json]) -> list[str]:
    """The names that more than one of a run's tools has: models know tools by nothing else."""
    functions = [tool["function"]["name"] for tool in tools if tool.get("type") == "function"]
    names = Counter([*functions, *map(name_of, server_tools(tools))])
    return sorted(name for name, times in names.items() if times > 1)


def with_uses_left(tools: Iterable[Json], uses: Mapping[str, int]) -> tuple[Json, ...]:
    """The same tools, where ``max_uses`` is what the run has left of it: 0 for one used up."""
    return tuple(_left(tool, uses) if server_tools([tool]) else tool for tool in tools)


def _left(tool: Json, uses: Mapping[str, int]) -> Json:
    if tool.get("max_uses") is None:
        return tool
    return tool | {"max_uses": max(tool["max_uses"] - uses.get(name_of(tool), 0), 0)}
