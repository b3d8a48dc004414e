"""Where a model is asked: the settings' table first, then the built-in one. Pure."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from orchestrator.records import RunSpec
from orchestrator.server_tools import name_of, server_tools
from orchestrator.settings import ModelRoute, Settings

BUILT_IN: Final = {
    "scripted/*": (ModelRoute(api="scripted"),),
    "claude-*": (ModelRoute(api="anthropic", context_tokens=200_000),),
    "*": (ModelRoute(api="openai"),),
}


def table_of(settings: Settings) -> Mapping[str, tuple[ModelRoute, ...]]:
    """All routes by their patterns, in the order in which they are looked at."""
    return settings.model_routes | {
        pattern: routes
        for pattern, routes in BUILT_IN.items()
        if pattern not in settings.model_routes
    }


def routes_of(settings: Settings, name: str) -> tuple[ModelRoute, ...]:
    """Where this model is asked: first of all, and after each failure."""
    table = table_of(settings)
    return next(routes for pattern, routes in table.items() if fnmatchcase(name, pattern))


def missing_tools(settings: Settings, spec: RunSpec) -> str | None:
    """Why the run's model cannot have all of its tools, if it cannot."""
    asked = server_tools(spec.tools)
    if asked and any(route.api == "openai" for route in routes_of(settings, spec.model)):
        return unknown_here(spec)
    return None


def unknown_here(spec: RunSpec) -> str:
    """What is said where a model is asked over chat completions, which know functions only."""
    names = ", ".join(sorted(map(name_of, server_tools(spec.tools))))
    return (
        f"The model {spec.model} is, or may be, asked over chat completions, which know functions"
        f" only; {names} can be run by a model of Anthropic's API."
    )
