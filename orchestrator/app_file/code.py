"""The code that an app file refers to, imported while the file is checked."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.guardrails import AT_TOOLS
from orchestrator.loading import NotLoaded, Tools, load_function, load_tools
from orchestrator.records import GuardPoint


class Code:
    """``tools`` are those of the modules so far. Methods raise ``ValueError``: that is wrong. Files
    (``./tools.py``) are seen from ``folder``, the app file's.
    """

    def __init__(self, folder: Path) -> None:
        self.tools: Tools = {}
        self.is_complete = True
        """Whether all modules were found; if not, many names seem unknown."""
        self._folder = folder
        self._modules: list[str] = []
        self._functions: dict[str, Callable[..., Any]] = {}

    def add_tools(self, source: str) -> None:
        """The tools of one more module."""
        located = self._located(source)
        try:
            self.tools = _loaded(load_tools, *self._modules, located)
        except ValueError:
            self.is_complete = False
            raise
        self._modules.append(located)

    def add_guardrail(self, source: str, on: GuardPoint) -> None:
        """A function that can look there."""
        function = _loaded(load_function, self._located(source))
        given = ("text", "tool") if on in AT_TOOLS else ("text",)
        try:
            inspect.signature(function).bind(*given)
        except (TypeError, ValueError):
            raise ValueError(f"{source} must take ({', '.join(given)})") from None
        self._functions[source] = function

    def function(self, source: str) -> Callable[..., Any]:
        """One that was added."""
        return self._functions[source]

    def _located(self, source: str) -> str:
        name, colon, function = source.partition(":")
        return f"{self._folder / name}{colon}{function}" if name.endswith(".py") else source


def _loaded(load: Callable[..., Any], *sources: str) -> Any:
    """What the loader finds, in the manner of a validator."""
    try:
        return load(*sources)
    except NotLoaded as error:
        raise ValueError(str(error)) from error
